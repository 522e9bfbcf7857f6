/* Registration of types (rp_dtype_register): what is refused, what a registered type answers, and numbers that are no
 * type in every public function that takes one. Each test is a process of its own. */
#include "tests/support/case.h"
#include "tests/support/example_types.h"

#include "reprise/external.h"
#include "reprise/train.h"

#include <pthread.h>

static void wide(const void *row, int64_t n, float *out, void *user) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)((const int8_t *)row)[i] * (user != NULL ? 2.0f : 1.0f);
}

static RpStatus refuses_silently(const float *x, const float *importance, int64_t n, void *row, void *user) {
    (void)x, (void)importance, (void)n, (void)row, (void)user;
    return RP_E_STATE;
}

static RpStatus refuses(const float *x, const float *importance, int64_t n, void *row, void *user) {
    (void)x, (void)importance, (void)row, (void)user;
    return rp_fail(RP_E_ARG, "%d elements are too many", (int)n);
}

static bool is_odd(const void *block, void *user) {
    (void)user;
    return *(const uint8_t *)block % 2 == 1;
}

static const RpDtypeDescription bytes = {.name = "bytes", .block_elems = 4, .block_bytes = 4, .dequantize = wide};

typedef struct Bad {
    RpDtypeDescription d;
    const char        *text;
} Bad;

Test(dtype_register, refuses_descriptions) {
    char       longest[33] = "a23456789_123456789_123456789_12";
    const char names[]     = "a type's name is made of 1 to 31 letters, digits and _";
    RpDtype    type        = RP_I32;
    const Bad  bad[]       = {
               {{.name = NULL},                                                                               names                                                                                  },
               {{.name = ""},                                                                                 names                                                                                  },
               {{.name = "a b"},                                                                              names                                                                                  },
               {{.name = longest},                                                                            names                                                                                  },
               {{.name = "q4_0"},                                                                             "there is a type 'q4_0'"                                                               },
               {{.name = "Q8_Act"},                                                                           "there is a type 'Q8_Act'"                                                             },
               {{.name = "i64"},                                                                              "there is a type 'i64'"                                                                },
               {{.name = "BYTES"},                                                                            "there is a type 'BYTES'"                                                              },
               {{.name = "t"},                                                                                "type 't': a block of 0 elements, must be 1, 2, 4, 8 or a multiple of 16, at most 1024"},
               {{.name = "t", .block_elems = -16},                                                            "a block of -16 elements"                                                              },
               {{.name = "t", .block_elems = 24},                                                             "a block of 24 elements"                                                               },
               {{.name = "t", .block_elems = 1040},                                                           "a block of 1040 elements"                                                             },
               {{.name = "t", .block_elems = 1 << 30},                                                        "a block of 1073741824 elements"                                                       },
               {{.name = "t", .block_elems = 16},                                                             "type 't': a block of 0 bytes, must be from 1 to 64, the bytes of f32"                 },
               {{.name = "t", .block_elems = 16, .block_bytes = 65},                                          "a block of 65 bytes"                                                                  },
               {{.name = "t", .block_elems = 16, .block_bytes = -1},                                          "a block of -1 bytes"                                                                  },
               {{.name = "t", .block_elems = 16, .block_bytes = 9, .flags = 4},                               "type 't': flags 0x4, must be 0"                                                       },
               {{.name = "t", .block_elems = 16, .block_bytes = 9},                                           "type 't': must have a function `dequantize`"                                          },
               {{.name = "t", .block_elems = 4, .block_bytes = 4, .gguf_type = 2, .dequantize = wide},
                "type 't': its number in GGUF files, 2, is that of Q4_0"                                                                                                                             },
               {{.name = "t", .block_elems = 4, .block_bytes = 4, .gguf_type = 24, .dequantize = wide},       "24, is that of I8"                                                                    },
               {{.name = "t", .block_elems = 4, .block_bytes = 4, .gguf_type = 777, .dequantize = wide},
                "777, is that of numbered"                                                                                                                                                           },
               {{.name = "t", .block_elems = 4, .block_bytes = 4, .gguf_type = 1u << 31, .dequantize = wide},
                "type 't': its number in GGUF files is 2147483648, must be at most 2147483647"                                                                                                       },
    };
    RpDtypeDescription numbered = bytes;
    numbered.name               = "numbered";
    numbered.gguf_type          = 777;
    OK(rp_dtype_register(&bytes, &type));
    OK(rp_dtype_register(&numbered, &type));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        type = RP_I32;
        cr_assert_eq(rp_dtype_register(&bad[i].d, &type), RP_E_ARG, "%s", bad[i].text);
        cr_expect_not_null(strstr(rp_last_error(), bad[i].text), "\"%s\", not \"%s\"", rp_last_error(), bad[i].text);
        cr_expect_eq(type, RP_I32, "%s", bad[i].text);
    }
    REFUSED(rp_dtype_register(NULL, &type), RP_E_ARG, "rp_dtype_register: description is NULL");
    REFUSED(rp_dtype_register(&bytes, NULL), RP_E_ARG, "rp_dtype_register: out is NULL");
    longest[31] = '\0';
    OK(rp_dtype_register(
        &(RpDtypeDescription){.name = longest, .block_elems = 1024, .block_bytes = 4096, .dequantize = wide}, &type));
}

/* A caller of an older header has a smaller struct; one of a newer header may use no member that is unknown here. */
Test(dtype_register, takes_structs_of_other_versions) {
    struct {
        RpDtypeDescription d;
        void              *later;
    } newer = {.d = bytes};
    RpDtype type, other;
    OK(rp_dtype_register_sized(&bytes, offsetof(RpDtypeDescription, quantize), &type));
    REFUSED(rp_quantize_row(type, (float[4]){0}, 4, (char[4]){0}), RP_E_DTYPE, "rows of bytes cannot be quantised");
    newer.d.name = "other";
    OK(rp_dtype_register_sized(&newer.d, sizeof newer, &other));
    newer.d.name = "later";
    newer.later  = &newer;
    REFUSED(rp_dtype_register_sized(&newer.d, sizeof newer, &other), RP_E_ARG, "compiled against a newer version");
}

Test(dtype_register, answers_like_a_built_in_type) {
    char               name[] = "pairs";
    RpDtype            type = RP_F32, found = RP_F32;
    RpDtypeDescription d = {.name = name, .block_elems = 2, .block_bytes = 3, .gguf_type = 4000, .dequantize = wide};
    cr_expect_null(rp_dtype_info(RP_DTYPE_CUSTOM));
    cr_expect_null(rp_gguf_type_name(4000));
    REFUSED(rp_dtype_from_gguf(4000, &found), RP_E_DTYPE, "tensor type unknown (4000) is not supported");
    OK(rp_dtype_register(&d, &type));
    memset(name, 'x', 5); /* the name was copied */
    cr_expect_eq((int)type, (int)RP_DTYPE_CUSTOM);
    cr_expect_str_eq(rp_dtype_name(type), "pairs");
    cr_expect_str_eq(rp_gguf_type_name(4000), "pairs");
    OK(rp_dtype_from_gguf(4000, &found));
    cr_expect_eq(found, type);
    const RpDtypeInfo *info = rp_dtype_info(type);
    cr_expect(info->block_elems == 2 && info->block_bytes == 3 && info->gguf_type == 4000);
    cr_expect(!rp_dtype_is_quant(type));
    cr_expect_eq(rp_row_bytes(type, 10), 15u);
    cr_expect_eq(rp_row_bytes(type, -2), 0u);
    const RpTensorView v = rp_view_contiguous(type, (int64_t[]){4, 5, 6, 7}, NULL);
    cr_expect(v.nb[0] == 3 && v.nb[1] == 6 && v.nb[2] == 30 && v.nb[3] == 180);
    cr_expect(rp_view_is_contiguous(&v));
    cr_expect_eq(rp_view_extent_bytes(&v), 1260u);
    d.name = "never", d.gguf_type = 0;
    OK(rp_dtype_register(&d, &type));
    cr_expect_eq((int)type, RP_DTYPE_CUSTOM + 1);
    cr_expect_eq(rp_dtype_info(type)->gguf_type, -1);
}

Test(dtype_register, hands_rows_to_the_functions) {
    static int         twice;
    RpDtype            type, silent, loud, odd;
    RpDtypeDescription d = bytes;
    float              y[8];
    const uint8_t      row[8] = {1, 3, 5, 0xff, 8, 7, 9, 11};
    d.user                    = &twice;
    OK(rp_dtype_register(&d, &type));
    rp_dequantize_row(type, row, 8, y);
    cr_expect(y[1] == 6.0f && y[3] == -2.0f && y[7] == 22.0f);
    rp_dequantize_row(type, row, 7, y); /* no whole block */
    for (int i = 0; i < 7; i++) cr_expect(isnan(y[i]), CASE(i));
    d.name = "silent", d.quantize = refuses_silently;
    OK(rp_dtype_register(&d, &silent));
    d.name = "loud", d.quantize = refuses;
    OK(rp_dtype_register(&d, &loud));
    REFUSED(rp_quantize_row(RP_Q4_0, y, 3, y), RP_E_SHAPE, "3 elements"); /* a text that must not be repeated */
    REFUSED(rp_quantize_row(silent, y, 8, y), RP_E_STATE,
            "a row cannot be quantised to silent: its function `quantize` gives no reason");
    REFUSED(rp_quantize_row(loud, y, 8, y), RP_E_ARG, "a row cannot be quantised to loud: 8 elements are too many");
    REFUSED(rp_quantize_row(loud, y, 6, y), RP_E_SHAPE,
            "a row of 6 elements: must be a whole number of loud blocks of 4");
    REFUSED(rp_quantize_row(loud, y, -4, y), RP_E_ARG, "rp_quantize_row: -4 elements: must be at least 0");
    REFUSED(rp_quantize_row(type, y, 8, y), RP_E_DTYPE,
            "rows of bytes cannot be quantised: the type has no function `quantize`");
    d.name = "odd", d.validate = is_odd;
    OK(rp_dtype_register(&d, &odd));
    OK(rp_dtype_check_row(odd, row, 4));
    REFUSED(rp_dtype_check_row(odd, row, 8), RP_E_FORMAT, "block 1 of a row is not valid in odd");
    REFUSED(rp_dtype_check_row(odd, row, 5), RP_E_SHAPE, "a row of 5 elements");
    REFUSED(rp_dtype_check_row(odd, NULL, 4), RP_E_ARG, "rp_dtype_check_row: row is NULL");
    OK(rp_dtype_check_row(type, row, 8));
    OK(rp_dtype_check_row(RP_F32, row, 2));
}

Test(dtype_register, stops_at_the_limit) {
    char               name[16];
    RpDtype            type = RP_F32;
    RpDtypeDescription d    = bytes;
    for (int i = 0; i < RP_MAX_CUSTOM_DTYPES; i++) {
        snprintf(name, sizeof name, "t%d", i);
        d.name = name;
        OK(rp_dtype_register(&d, &type));
        cr_assert_eq((int)type, RP_DTYPE_CUSTOM + i, CASE(i));
    }
    d.name = "more";
    REFUSED(rp_dtype_register(&d, &type), RP_E_NOMEM, "type 'more': at most 64 custom types can be registered");
    cr_expect_str_eq(rp_dtype_name(RP_DTYPE_CUSTOM), "t0");
    cr_expect_str_eq(rp_dtype_name(RP_DTYPE_CUSTOM + 63), "t63");
    cr_expect_null(rp_dtype_info(RP_DTYPE_CUSTOM + 64));
}

/* ---- several threads ---- */

enum { N_THREADS = 4, EACH = 12 };

static void *register_many(void *arg) {
    const int thread = *(const int *)arg;
    for (int i = 0; i < EACH; i++) {
        char               name[16], want[16];
        RpDtype            type;
        RpDtypeDescription d = bytes;
        snprintf(name, sizeof name, "t%d_%d", thread, i);
        strcpy(want, name);
        d.name = name;
        OK(rp_dtype_register(&d, &type));
        memset(name, 0, sizeof name);
        cr_assert_str_eq(rp_dtype_name(type), want, CASE(thread, i));
        for (int k = 0; rp_dtype_info((RpDtype)(RP_DTYPE_CUSTOM + k)) != NULL; k++)
            cr_assert_eq(rp_row_bytes((RpDtype)(RP_DTYPE_CUSTOM + k), 8), 8u, CASE(thread, k));
    }
    return NULL;
}

Test(dtype_register, any_thread_may_register) {
    pthread_t threads[N_THREADS];
    int       numbers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, register_many, &numbers[i]), 0, CASE(i));
    }
    for (int i = 0; i < N_THREADS; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0, CASE(i));
    cr_expect_not_null(rp_dtype_info(RP_DTYPE_CUSTOM + N_THREADS * EACH - 1));
    cr_expect_null(rp_dtype_info(RP_DTYPE_CUSTOM + N_THREADS * EACH));
}

/* ---- numbers that are no type ---- */

static RpStatus shape_of_no_type(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out,
                                 const char **why) {
    (void)why;
    *out       = *in->unary.x;
    out->dtype = (RpDtype)params->custom.i[0];
    return RP_OK;
}

static RpStatus nothing(const RpOpArgs *args, RpKernelCtx *ctx) {
    (void)args, (void)ctx;
    return RP_OK;
}

static const RpOpDescription odd_op = {
    .name = "odd_op", .n_required = 1, .n_sources = 1, .shape = shape_of_no_type, .cpu = nothing};

/* The graph reports the first failure when it is finished. */
static void refuse_in_graph(RpDtype no, TensorNode *make(ComputeGraph *g, RpDtype no)) {
    ComputeGraph  *g   = rp_graph_new();
    TensorNode    *out = make(g, no);
    const RpStatus st  = rp_graph_finish(g, &out, 1);
    cr_expect_neq(st, RP_OK, "%d: %s", (int)no, rp_last_error());
    rp_graph_free(g);
}

static float memory[64];

static TensorNode *an_input(ComputeGraph *g, RpDtype no) {
    return rp_graph_input(g, "x", no, (int64_t[]){16, 1, 1, 1});
}
static TensorNode *a_state(ComputeGraph *g, RpDtype no) { return rp_graph_state(g, "x", no, (int64_t[]){16, 1, 1, 1}); }
static TensorNode *a_weight(ComputeGraph *g, RpDtype no) {
    RpTensorView v = rp_view_contiguous(RP_F32, (int64_t[]){16, 1, 1, 1}, memory);
    v.dtype        = no;
    return rp_graph_weight(g, "x", &v);
}
static TensorNode *a_cast(ComputeGraph *g, RpDtype no) { return rp_cast(g, an_input(g, RP_F32), no); }
static TensorNode *bits(ComputeGraph *g, RpDtype no) {
    TensorNode *x = an_input(g, RP_F32);
    return rp_graph_op(g, RP_OP_BITS, &(RpOpParams){.bits = {.dtype = no}}, &x, 1);
}
static TensorNode *heads(ComputeGraph *g, RpDtype no) {
    const RpOpParams p = {
        .attention = {.scale = 1.0f, .dtype = no}
    };
    TensorNode *q = rp_graph_input(g, "q", RP_F32, (int64_t[]){32, 1, 1, 1}),
               *k = rp_graph_state(g, "k", RP_F16, (int64_t[]){32, 4, 1, 1}),
               *v = rp_graph_state(g, "v", RP_F16, (int64_t[]){32, 4, 1, 1}),
               *t = rp_graph_input(g, "pos", RP_I32, (int64_t[]){1, 1, 1, 1});
    return rp_graph_op(g, RP_OP_ATTENTION, &p, (TensorNode *const[]){q, k, v, t}, 4);
}
static TensorNode *result(ComputeGraph *g, RpDtype no) {
    static TensorOp  op;
    const RpOpParams p = {.custom = {.i = {(int)no}}};
    TensorNode      *x = an_input(g, RP_F32);
    if (op == 0) OK(rp_op_register(&odd_op, &op));
    return rp_graph_op(g, op, &p, &x, 1);
}

Test(dtype_register, numbers_that_are_no_type_are_errors) {
    static const int no[]                                         = {-1,
                                                                     RP_DTYPE_COUNT,
                                                                     RP_DTYPE_COUNT + 1,
                                                                     RP_DTYPE_CUSTOM - 1,
                                                                     RP_DTYPE_CUSTOM + 1,
                                                                     RP_DTYPE_CUSTOM + 64,
                                                                     RP_DTYPE_CUSTOM + 65,
                                                                     INT32_MAX,
                                                                     INT32_MIN};
    static TensorNode *(*const makers[])(ComputeGraph *, RpDtype) = {an_input, a_state, a_weight, a_cast,
                                                                     bits,     heads,   result};
    const int64_t     ne[]                                        = {16, 1, 1, 1};
    RpDtype           type;
    RpExternalTensor *external;
    RpModel          *m = golden_open_tiny("llama-mix");
    ComputeGraph     *g;
    RpSession        *session;
    OK(rp_dtype_register(&bytes, &type));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        const RpDtype t = (RpDtype)no[i];
        cr_expect_null(rp_dtype_info(t), CASE(no[i]));
        cr_expect_str_eq(rp_dtype_name(t), "?", CASE(no[i]));
        cr_expect_eq(rp_row_bytes(t, 16), 0u, CASE(no[i]));
        cr_expect_eq(rp_view_contiguous(t, ne, memory).ne[0], 0, CASE(no[i]));
        const RpTensorView v = {
            .data = memory, .dtype = t, .ne = {16, 1,  1,  1 },
                    .nb = {4,  64, 64, 64}
        };
        cr_expect(!rp_view_is_contiguous(&v), CASE(no[i]));
        cr_expect_eq(rp_view_extent_bytes(&v), 0u, CASE(no[i]));
        cr_expect_eq(rp_quantize_row(t, memory, 16, memory + 32), RP_E_DTYPE, CASE(no[i]));
        cr_expect_eq(rp_dtype_check_row(t, memory, 16), RP_E_DTYPE, CASE(no[i]));
        rp_dequantize_row(t, memory, 16, memory + 32);
        cr_expect(isnan(memory[32]) && isnan(memory[47]) && memory[48] == 0.0f, CASE(no[i]));
        cr_expect_eq(rp_external_new(&(RpExternalMemory){.name = "x", .view = v}, &external), RP_E_DTYPE, CASE(no[i]));
        cr_expect_neq(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8, .kv_type = t}, &g), RP_OK,
                      CASE(no[i]));
        cr_expect_neq(rp_session_open(m, &(RpSessionOptions){.n_ctx = 8, .kv_type = t}, &session), RP_OK, CASE(no[i]));
        for (size_t k = 0; k < sizeof makers / sizeof makers[0]; k++) refuse_in_graph(t, makers[k]);
        cr_expect_not_null(strstr(rp_last_error(), "the shape rule gives a result of an unknown dtype"), "%d: %s",
                           no[i], rp_last_error());
    }
    rp_model_free(m);
}
