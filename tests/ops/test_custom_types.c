/* The types of examples/dtypes.c against golden values (tools/golden/golden_dtypes.py), and products, rows and fused
 * graphs of registered types: bits depend on neither the workers nor the other columns (I8). */
#include "tests/support/case.h"
#include "tests/support/example_types.h"
#include "tests/support/kernel_test.h"

#include "base/quantize.h"
#include "reprise/device.h"
#include "reprise/external.h"
#include "reprise/nn.h"

/* ---- golden values ---- */

static float float_of(const char *hex) {
    char     digits[9] = "";
    uint32_t bits;
    float    x;
    memcpy(digits, hex, 8);
    bits = (uint32_t)strtoul(digits, NULL, 16);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* The lines of tests/golden/dtypes.txt that begin with `kind`; returns their number. */
static int golden_lines(const char *kind, void (*check)(char *fields[4])) {
    FILE  *f    = golden_open("dtypes.txt");
    char  *line = NULL;
    size_t size = 0;
    int    n    = 0;
    while (golden_line(f, &line, &size) != NULL) {
        char *fields[4] = {NULL}, *save = NULL;
        for (int i = 0; i < 4; i++) fields[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
        if (strcmp(fields[0], kind) != 0) continue;
        check(fields);
        n++;
    }
    free(line);
    fclose(f);
    return n;
}

static void check_fp8_value(char *fields[4]) {
    const uint8_t code = (uint8_t)strtoul(fields[1], NULL, 16);
    const float   want = float_of(fields[2]);
    float         x;
    uint8_t       again;
    rp_dequantize_row(example_type(FP8), &code, 1, &x);
    cr_expect(isnan(want) ? isnan(x) && signbit(x) == signbit(want) : same_bits(x, want), "%02x is %g", code,
              (double)x);
    OK(rp_quantize_row(example_type(FP8), &x, 1, &again));
    cr_expect_eq(again, code, "%02x -> %g -> %02x", code, (double)x, again);
}

static void check_fp8_code(char *fields[4]) {
    const float   x    = float_of(fields[1]);
    const uint8_t want = (uint8_t)strtoul(fields[2], NULL, 16);
    uint8_t       code;
    OK(rp_quantize_row(example_type(FP8), &x, 1, &code));
    cr_expect_eq(code, want, "%.9g -> %02x, not %02x", (double)x, code, want);
}

Test(custom_types, fp8_has_the_values_of_ml_dtypes) { cr_expect_eq(golden_lines("value", check_fp8_value), 256); }

/* Midpoints of neighbours (to even), the numbers next to these, subnormal ones, beyond the largest, NaN. */
Test(custom_types, fp8_rounds_as_ml_dtypes) { cr_expect_gt(golden_lines("code", check_fp8_code), 900); }

static void check_nf4_table(char *fields[4]) {
    const float want = float_of(fields[2]);
    const int   k    = (int)strtol(fields[1], NULL, 16);
    cr_expect(fabsf(nf4_values[k] - want) < 1.3e-7f, "%d: %.9g, the quantile is %.9g", k, (double)nf4_values[k],
              (double)want);
}

static void floats_of(const char *hex, float x[64]) {
    for (int i = 0; i < 64; i++) x[i] = float_of(hex + 8 * i);
}

/* A block: a float, within `most` of itself, and then bytes. */
static void check_block(RpDtype type, const float *x, const float *w, const char *want, float most) {
    char        text[80] = "";
    uint8_t     block[64];
    float       scale;
    const float want_scale = float_of(want);
    OK(rp_quantize_row_weighted(type, x, w, 64, block));
    memcpy(&scale, block, sizeof scale);
    cr_expect(fabsf(scale - want_scale) <= most * want_scale, "%g, not %g", (double)scale, (double)want_scale);
    for (size_t i = 4; i < rp_row_bytes(type, 64); i++) sprintf(text + 2 * (i - 4), "%02x", block[i]);
    cr_expect_str_eq(text, want + 8, "%s: %s, not %s", rp_dtype_name(type), text, want + 8);
    OK(rp_dtype_check_row(type, block, 64));
}

static void check_nf4(char *fields[4]) {
    float   x[64], y[64];
    uint8_t block[64];
    floats_of(fields[1], x);
    check_block(example_type(NF4), x, NULL, fields[2], 0.0f);
    OK(rp_quantize_row(example_type(NF4), x, 64, block));
    rp_dequantize_row(example_type(NF4), block, 64, y);
    for (int i = 0; i < 64; i++) { /* half of the widest step of the table */
        const float most = 0.152f * float_of(fields[2]);
        cr_expect(fabsf(x[i] - y[i]) <= most, CASE(i));
    }
}

static void check_ternary(char *fields[4]) {
    float x[64], w[64];
    floats_of(fields[1], x);
    if (fields[3] != NULL) floats_of(fields[2], w);
    check_block(example_type(TERNARY), x, fields[3] != NULL ? w : NULL, fields[fields[3] != NULL ? 3 : 2], 1e-6f);
}

Test(custom_types, nf4_has_the_quantiles_of_the_paper) {
    cr_expect_eq(golden_lines("table", check_nf4_table), 16);
    cr_expect_eq(golden_lines("nf4", check_nf4), 4);
}

Test(custom_types, ternary_rounds_and_weighs_as_numpy_does) {
    cr_expect_eq(golden_lines("ternary", check_ternary), 3);
    cr_expect_eq(golden_lines("weighted", check_ternary), 2);
}

/* A number halfway between two values of the table gets the lower one, as in bitsandbytes. */
Test(custom_types, nf4_breaks_ties_downwards) {
    float   x[64] = {1.0f};
    uint8_t block[36];
    for (int k = 0; k < 15; k++) x[k + 1] = 0.5f * (nf4_values[k] + nf4_values[k + 1]);
    OK(rp_quantize_row(example_type(NF4), x, 64, block));
    for (int k = 0; k < 15; k++) cr_expect_eq(block[4 + (k + 1) / 2] >> (k % 2 == 0 ? 0 : 4) & 15, k, CASE(k));
}

Test(custom_types, refuse_what_they_cannot_hold) {
    static const ExampleType types[] = {NF4, TERNARY};
    static const float       no[]    = {NAN, INFINITY, -INFINITY};
    uint8_t                  block[64];
    const float              scale = NAN, negative = -1.0f;
    for (int t = 0; t < 2; t++)
        for (int k = 0; k < 3; k++) {
            float x[64] = {0};
            x[50]       = no[k];
            cr_expect_eq(rp_quantize_row(example_type(types[t]), x, 64, block), RP_E_ARG, CASE(t, k));
        }
    memset(block, 0, sizeof block);
    for (int t = 0; t < 2; t++) {
        OK(rp_dtype_check_row(example_type(types[t]), block, 64));
        memcpy(block, &scale, sizeof scale);
        REFUSED(rp_dtype_check_row(example_type(types[t]), block, 64), RP_E_FORMAT,
                "block 0 of a row is not valid in ");
        memset(block, 0, sizeof block);
    }
    memcpy(block, &negative, sizeof negative);
    cr_expect_eq(rp_dtype_check_row(example_type(NF4), block, 64), RP_E_FORMAT);
    block[16] = 243; /* 242 is the largest number of five digits */
    cr_expect_eq(rp_dtype_check_row(example_type(TERNARY), block, 64), RP_E_FORMAT);
}

/* ---- kernels ---- */

/* One of the types, or a type without `dot`. */
static RpDtype type_at(int i) { return i < N_TYPES ? example_type((ExampleType)i) : type_without_dot(); }
enum { ALL_TYPES = N_TYPES + 1 };

static void *random_blocks(RpDtype type, int64_t n, int64_t rows, uint64_t seed) {
    float *x      = random_floats((size_t)(n * rows), seed);
    char  *blocks = malloc(rp_row_bytes(type, n) * (size_t)rows + 1);
    OK(rp_quantize_row(type, x, n * rows, blocks + 1)); /* an odd address */
    free(x);
    return blocks;
}

/* w [n,m] x [n,c] -> y [m,c]; sums in double are the reference. Each column alone has the same bits. */
static void check_product(RpDtype type, int64_t n, int64_t m, int64_t c) {
    char  *w = random_blocks(type, n, m, (uint64_t)(n + m));
    float *x = random_floats((size_t)(n * c), (uint64_t)c), *wide = malloc((size_t)(n * m) * sizeof *wide),
          *y = malloc((size_t)(m * c) * sizeof *y), *alone = malloc((size_t)m * sizeof *alone);
    const RpOpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, y, m, c, 1, 1),
                .src    = {tensor(type, w + 1, n, m, 1, 1), tensor(RP_F32, x, n, c, 1, 1)},
                .params = &p
    };
    rp_dequantize_row(type, w + 1, n * m, wide);
    run_variants(rp_cpu_mul_mat, &args);
    for (int64_t j = 0; j < c; j++) {
        for (int64_t i = 0; i < m; i++) {
            double want = 0.0, size = 0.0;
            for (int64_t k = 0; k < n; k++) {
                want += (double)wide[i * n + k] * (double)x[j * n + k];
                size += fabs((double)wide[i * n + k] * (double)x[j * n + k]);
            }
            cr_assert(fabs(want - (double)y[j * m + i]) <= 2e-6 * size, "%s [%d,%d] x %d: (%d,%d) is %g, not %g",
                      rp_dtype_name(type), (int)n, (int)m, (int)c, (int)i, (int)j, (double)y[j * m + i], want);
        }
        args.dst             = tensor(RP_F32, alone, m, 1, 1, 1);
        args.mul_mat.x.data  = x + j * n;
        args.mul_mat.x.ne[1] = 1;
        OK(run_workers(rp_cpu_mul_mat, &args, 1));
        cr_assert_arr_eq(alone, y + j * m, (size_t)m * sizeof *y, "%s [%d,%d]: column %d of %d has other bits alone",
                         rp_dtype_name(type), (int)n, (int)m, (int)j, (int)c);
    }
    free(w), free(x), free(wide), free(y), free(alone);
}

Test(custom_types, products_of_any_shape) {
    uint64_t seed = 17;
    for (int t = 0; t < ALL_TYPES; t++)
        for (int k = 0; k < 6; k++) {
            const int64_t step = t == FP8 ? 1 : 64;
            const int64_t n    = step * (1 + (int64_t)(fabsf(random_float(&seed)) * (t == FP8 ? 300.0f : 30.0f)));
            const int64_t m    = 1 + (int64_t)(fabsf(random_float(&seed)) * 20.0f);
            check_product(type_at(t), n, m, 1 + k % 5);
        }
}

/* A block length that is no divisor of 1024, the slice of rows that are dequantised: 48 elements. */
static void ramp(const void *row, int64_t n, float *out, void *user) {
    (void)user;
    for (int64_t i = 0; i < n; i++) out[i] = (float)((const int8_t *)row)[i / 48 * 50 + i % 48] * 0.01f;
}
static RpStatus to_ramp(const float *x, const float *importance, int64_t n, void *row, void *user) {
    (void)importance, (void)user;
    memset(row, 0, (size_t)(n / 48 * 50));
    for (int64_t i = 0; i < n; i++) ((int8_t *)row)[i / 48 * 50 + i % 48] = (int8_t)(x[i] * 100.0f);
    return RP_OK;
}

Test(custom_types, slices_are_whole_blocks) {
    const RpDtypeDescription d = {
        .name = "ramp", .block_elems = 48, .block_bytes = 50, .dequantize = ramp, .quantize = to_ramp};
    RpDtype type;
    OK(rp_dtype_register(&d, &type));
    check_product(type, 48 * 50, 5, 3);
    check_product(type, 48, 1, 1);
}

/* Without `dot`, products have the bits of the same weights in f32. */
Test(custom_types, products_without_a_dot_are_those_of_f32) {
    enum { K = 2048, M = 7, C = 5 };
    char            *w = random_blocks(type_without_dot(), K, M, 3);
    float           *x = random_floats(K * C, 4), *wide = malloc(K * M * sizeof *wide), y[M * C], want[M * C];
    const RpOpParams p = {.mul_mat = {.bound = RP_BOUND_NONE}};
    rp_dequantize_row(type_without_dot(), w + 1, K * M, wide);
    for (int64_t c = 1; c <= C; c += 4) {
        const RpOpArgs own = {
            .dst    = tensor(RP_F32, y, M, c, 1, 1),
            .src    = {tensor(type_without_dot(), w + 1, K, M, 1, 1), tensor(RP_F32, x, K, c, 1, 1)},
            .params = &p
        };
        const RpOpArgs f32 = {
            .dst    = tensor(RP_F32, want, M, c, 1, 1),
            .src    = {tensor(RP_F32, wide, K, M, 1, 1), tensor(RP_F32, x, K, c, 1, 1)},
            .params = &p
        };
        run_variants(rp_cpu_mul_mat, &own);
        run_variants(rp_cpu_mul_mat, &f32);
        cr_expect_arr_eq(y, want, (size_t)(M * c) * sizeof *y, CASE(c));
    }
    free(w), free(x), free(wide);
}

/* mul_mat_id of one token and of several, with an id that is no expert, against mul_mat with each expert's matrix. */
Test(custom_types, products_of_experts) {
    enum { N = 128, M = 9, EXPERTS = 4, K = 2, T = 3 };
    static int32_t ids[K * T] = {1, 3, 0, -1, 3, 2};
    for (int t = 0; t < ALL_TYPES; t++) {
        const RpDtype    type = type_at(t);
        char            *w    = random_blocks(type, N, M * EXPERTS, 11);
        float           *x    = random_floats(N * K * T, 12), y[M * K * T], want[M];
        const RpOpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
        for (int64_t n_tok = 1; n_tok <= T; n_tok += 2) {
            const RpOpArgs args = {
                .dst = tensor(RP_F32, y, M, K, n_tok, 1),
                .src = {tensor(type, w + 1, N, M, EXPERTS, 1), tensor(RP_F32, x, N, K, n_tok, 1),
                        tensor(RP_I32, ids, K, n_tok, 1, 1)}
            };
            run_variants(rp_cpu_mul_mat_id, &args);
            for (int64_t j = 0; j < K * n_tok; j++) {
                memset(want, 0, sizeof want);
                if (ids[j] >= 0) {
                    char          *expert = w + 1 + (size_t)ids[j] * M * rp_row_bytes(type, N);
                    const RpOpArgs one    = {
                           .dst    = tensor(RP_F32, want, M, 1, 1, 1),
                           .src    = {tensor(type, expert, N, M, 1, 1), tensor(RP_F32, x + j * N, N, 1, 1, 1)},
                           .params = &p
                    };
                    OK(run_workers(rp_cpu_mul_mat, &one, 1));
                }
                cr_expect_arr_eq(y + j * M, want, sizeof want, CASE(t, n_tok, j));
            }
        }
        free(w), free(x);
    }
}

Test(custom_types, rows_of_a_table) {
    enum { N = 192, N_ROWS = 5, T = 4 };
    static int32_t ids[T] = {4, 0, 0, 2};
    for (int t = 0; t < ALL_TYPES; t++) {
        const RpDtype    type = type_at(t);
        char            *w    = random_blocks(type, N, N_ROWS, 5);
        float            y[N * T], want[N];
        const RpOpParams params = {.get_rows = {.scale = 0.0f}};
        const RpOpArgs   args   = {
                .dst    = tensor(RP_F32, y, N, T, 1, 1),
                .src    = {tensor(type, w + 1, N, N_ROWS, 1, 1), tensor(RP_I32, ids, T, 1, 1, 1)},
                .params = &params
        };
        run_variants(rp_cpu_get_rows, &args);
        for (int i = 0; i < T; i++) {
            rp_dequantize_row(type, w + 1 + (size_t)ids[i] * rp_row_bytes(type, N), N, want);
            cr_expect_arr_eq(y + i * N, want, sizeof want, CASE(t, i));
        }
        free(w);
    }
}

/* ---- graphs ---- */

static TensorNode *weight(ComputeGraph *g, const char *name, RpDtype type, void *data, int64_t n, int64_t m) {
    const RpTensorView v = rp_view_contiguous(type, NE(n, m, 1, 1), data);
    return rp_graph_weight(g, name, &v);
}

/* A feed-forward with a norm and a residual: gate_up, down_add. */
static ComputeGraph *feed_forward(RpDtype type, char *w, char *norm, TensorNode **x, TensorNode **y) {
    enum { N = 64, M = 128 };
    ComputeGraph *g = rp_graph_new();
    const size_t  a = rp_row_bytes(type, N) * M;
    *x              = rp_graph_input(g, "x", RP_F32, NE(N, 1, 1, 1));
    TensorNode *h   = rp_rms_norm(g, *x, weight(g, "norm", RP_F32, norm, N, 1), 1e-5f);
    TensorNode *up  = rp_mul(g, rp_silu(g, rp_mul_mat(g, weight(g, "gate", type, w, N, M), h)),
                             rp_mul_mat(g, weight(g, "up", type, w + a, N, M), h));
    *y              = rp_add(g, rp_mul_mat(g, weight(g, "down", type, w + 2 * a, M, N), up), *x);
    OK(rp_graph_finish(g, y, 1));
    return g;
}

static void run_graph(ComputeGraph *g, const TensorNode *in, const TensorNode *out, int n_threads, float *y) {
    ExecPlan    *plan;
    RpExecutor  *exec;
    const float *from = random_floats(64, 21);
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu", .n_threads = n_threads}, &exec));
    memcpy(rp_executor_data(exec, in), from, 64 * sizeof *from);
    OK(rp_executor_run(exec));
    memcpy(y, rp_executor_data(exec, out), 64 * sizeof *y);
    free((void *)(uintptr_t)from);
    rp_executor_free(exec);
    rp_plan_free(plan);
}

/* Fused and not, with one to four threads: the same bits, fewer steps, and no quantised activations. */
Test(custom_types, fused_graphs_have_the_same_bits) {
    for (int t = 0; t < ALL_TYPES; t++) {
        char *w = random_blocks(type_at(t), 64, 3 * 128, 9), *norm = (char *)random_floats(64, 10);
        float want[64], y[64];
        int   steps[2];
        for (int fused = 0; fused < 2; fused++)
            for (int n_threads = 1; n_threads <= 4; n_threads++) {
                TensorNode   *in, *out;
                ComputeGraph *g = feed_forward(type_at(t), w + 1, norm, &in, &out);
                OK(rp_graph_optimize(g, fused ? "" : "-all"));
                steps[fused] = rp_graph_n_steps(g);
                run_graph(g, in, out, n_threads, fused == 0 && n_threads == 1 ? want : y);
                if (fused != 0 || n_threads > 1) cr_expect_arr_eq(y, want, sizeof y, CASE(t, fused, n_threads));
                for (int i = 0; i < rp_graph_n_nodes(g); i++)
                    cr_expect_neq(rp_node_view(rp_graph_node(g, i)).dtype, RP_Q8_ACT, CASE(t, fused, i));
                rp_graph_free(g);
            }
        cr_expect(steps[0] == 7 && steps[1] == 2, "%d steps, fused %d", steps[0], steps[1]);
        free(w), free(norm);
    }
}

Test(custom_types, dumps_name_the_type) {
    char         *w = random_blocks(example_type(NF4), 64, 3 * 128, 9), *norm = (char *)random_floats(64, 10), *text;
    size_t        size;
    TensorNode   *in, *out;
    ComputeGraph *g = feed_forward(example_type(NF4), w + 1, norm, &in, &out);
    for (int format = RP_DUMP_TEXT; format <= RP_DUMP_JSON; format++) {
        FILE *f = open_memstream(&text, &size);
        OK(rp_graph_dump(g, &(RpDumpOptions){.format = (RpDumpFormat)format}, f));
        fclose(f);
        cr_expect_not_null(strstr(text, "nf4"), "%s", text);
        free(text);
    }
    rp_graph_free(g);
    free(w), free(norm);
}

/* ---- where a registered type is refused ---- */

typedef TensorNode *Maker(ComputeGraph *g, TensorNode *w, TensorNode *x);

static TensorNode *m_add(ComputeGraph *g, TensorNode *w, TensorNode *x) { return (void)x, rp_add(g, w, w); }
static TensorNode *m_silu(ComputeGraph *g, TensorNode *w, TensorNode *x) { return (void)x, rp_silu(g, w); }
static TensorNode *m_scale(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    return (void)x, rp_scale(g, w, 2.0f, 0.0f);
}
static TensorNode *m_norm(ComputeGraph *g, TensorNode *w, TensorNode *x) { return rp_rms_norm(g, x, w, 1e-5f); }
static TensorNode *m_second(ComputeGraph *g, TensorNode *w, TensorNode *x) { return rp_mul_mat(g, x, w); }
static TensorNode *m_from(ComputeGraph *g, TensorNode *w, TensorNode *x) { return (void)x, rp_cast(g, w, RP_F32); }
static TensorNode *m_to(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    return (void)w, rp_cast(g, x, example_type(NF4));
}
static TensorNode *m_transpose(ComputeGraph *g, TensorNode *w, TensorNode *x) { return (void)x, rp_transpose(g, w); }
static TensorNode *m_bits(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    (void)x;
    return rp_graph_op(g, RP_OP_BITS, &(RpOpParams){.bits = {.dtype = RP_F32}}, &w, 1);
}
static TensorNode *m_part(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    (void)x;
    return rp_view(g, w,
                   &(RpViewParams){
                       .ne = {32, 1,  1,  1 },
                         .nb = {36, 36, 36, 36}
    });
}
static TensorNode *m_bound(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    TensorNode *pos = rp_graph_input(g, "pos", RP_I32, NE(1, 1, 1, 1));
    return rp_graph_op(g, RP_OP_MUL_MAT, &(RpOpParams){.mul_mat = {.bound = RP_BOUND_ROWS}},
                       (TensorNode *const[]){w, x, pos}, 3);
}
static TensorNode *m_act(ComputeGraph *g, TensorNode *w, TensorNode *x) {
    (void)x;
    return rp_mul_mat(g, w, rp_graph_input(g, "q", RP_Q8_ACT, NE(64, 1, 1, 1)));
}

Test(custom_types, are_refused_by_name_elsewhere) {
    static const struct {
        Maker      *make;
        const char *text;
    } all[] = {
        {m_add,       "f32"                                                                       },
        {m_silu,      "f32"                                                                       },
        {m_scale,     "f32"                                                                       },
        {m_norm,      "f32"                                                                       },
        {m_second,    "f32"                                                                       },
        {m_from,      "nf4 [64]"                                                                  },
        {m_to,        "must be of float types, or f32 and q8_0"                                   },
        {m_transpose, "dimension 0 must keep its place"                                           },
        {m_bits,      "plain numbers"                                                             },
        {m_part,      "whole blocks"                                                              },
        {m_bound,     "the weights must not be of a registered type where the product has a bound"},
        {m_act,       "must be f32"                                                               },
    };
    static uint8_t    block[36];
    const int64_t     ne[] = {64, 1, 1, 1};
    RpTensorView      v    = rp_view_contiguous(example_type(NF4), ne, block);
    RpExternalTensor *external;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ComputeGraph  *g = rp_graph_new();
        TensorNode    *w = rp_graph_weight(g, "w", &v), *x = rp_graph_input(g, "x", RP_F32, ne);
        TensorNode    *y  = all[i].make(g, w, x);
        const RpStatus st = rp_graph_finish(g, &y, 1);
        cr_expect(st == RP_E_DTYPE || st == RP_E_SHAPE, "%d %s: %s", (int)i, all[i].text, rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), all[i].text), "%s: %s", all[i].text, rp_last_error());
        cr_expect(all[i].make == m_to || strstr(rp_last_error(), "nf4") != NULL, "%s", rp_last_error());
        rp_graph_free(g);
    }
    const RpOpParams p     = {.mul_mat = {.bound = RP_BOUND_ROWS}};
    float            x[64] = {0}, y[1];
    int32_t          pos   = 0;
    const RpOpArgs   bound = {
          .dst    = tensor(RP_F32, y, 1, 1, 1, 1),
          .src    = {v, tensor(RP_F32, x, 64, 1, 1, 1), tensor(RP_I32, &pos, 1, 1, 1, 1)},
          .params = &p
    };
    REFUSED(rp_cpu_mul_mat(&bound, &(RpKernelCtx){.nth = 1}), RP_E_DTYPE,
            "w must not be of a registered type where the product has a bound");
    REFUSED(rp_external_new(&(RpExternalMemory){.name = "x", .view = v}, &external), RP_E_DTYPE,
            "type nf4, must be f32");
}
