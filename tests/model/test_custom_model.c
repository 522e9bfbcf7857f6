/* Model files whose weights are of registered types: written by rp_requantize, refused while the type is unknown, and
 * read. The same file converted back to f32 is the reference for logits and tokens. */
#include "tests/support/example_types.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny.h"

#include "reprise/convert.h"
#include "reprise/session.h"
#include "reprise/train.h"

static char folder[] = "/tmp/reprise-types-XXXXXX";

static void begin(void) { cr_assert_not_null(mkdtemp(folder)); }

static void end(void) {
    static const char *const names[] = {"own.gguf", "f32.gguf", "bad.gguf"};
    char                     path[96];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(custom_model, .init = begin, .fini = end);

static const char *in_folder(const char *name) {
    static char paths[4][96];
    static int  turn;
    char       *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *tiny_path(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    return path;
}

/* own.gguf: the matrices of a tiny model in a type; f32.gguf: the values that these have. */
static void convert(const char *tiny, const char *type) {
    cr_assert_eq(rp_requantize(tiny_path(tiny), in_folder("own.gguf"), type, NULL, NULL), RP_OK, "%s: %s", tiny,
                 rp_last_error());
    cr_assert_eq(rp_requantize(in_folder("own.gguf"), in_folder("f32.gguf"), "F32", NULL, NULL), RP_OK, "%s: %s", tiny,
                 rp_last_error());
}

static RpDtype fp8_without_dot(void) {
    RpDtypeDescription d = fp8_e4m3;
    RpDtype            type;
    (void)example_type(FP8); /* fills in the table */
    d.name      = "fp8_slow";
    d.gguf_type = 20103;
    d.dot       = NULL;
    OK(rp_dtype_register(&d, &type));
    return type;
}

/* ---- logits ---- */

enum { N_IDS = 12, MAX_VOCAB = 512, N_TOKENS = 8 };

typedef struct Run {
    float   logits[MAX_VOCAB];
    int32_t tokens[N_TOKENS]; /* the greedy reply */
    size_t  n_vocab;
} Run;

static int32_t largest(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

static void run(const char *path, const char *passes, int n_threads, size_t step, Run *out) {
    RpModel   *m;
    RpSession *s;
    int32_t    ids[N_IDS];
    OK(rp_model_open(path, NULL, &m));
    out->n_vocab = (size_t)rp_model_info(m)->n_vocab;
    cr_assert_leq(out->n_vocab, (size_t)MAX_VOCAB);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)((unsigned)i * 2654435761u >> 8) % ((int32_t)out->n_vocab - 3) + 3;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 32, .n_threads = n_threads, .passes = passes}, &s));
    for (size_t i = 0; i < N_IDS; i += step) OK(rp_session_prefill(s, ids + i, step, NULL, NULL));
    memcpy(out->logits, rp_session_logits(s), out->n_vocab * sizeof(float));
    for (int i = 0; i < N_TOKENS; i++) {
        out->tokens[i] = largest(rp_session_logits(s), out->n_vocab);
        OK(rp_session_prefill(s, &out->tokens[i], 1, NULL, NULL));
    }
    rp_session_free(s);
    rp_model_free(m);
}

static double distance(const Run *a, const Run *b) {
    double off = 0.0, size = 0.0;
    for (size_t i = 0; i < a->n_vocab; i++) {
        const double d = (double)a->logits[i] - (double)b->logits[i];
        off += d * d, size += (double)b->logits[i] * (double)b->logits[i];
    }
    return sqrt(off / size);
}

static void check_type_of_weights(RpDtype type) {
    RpGgufFile *f;
    OK(rp_gguf_open(in_folder("own.gguf"), &f));
    int n = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (t->view.ne[1] == 1) continue;
        cr_expect_eq(t->view.dtype, type, "%.*s is %s", (int)t->name.len, t->name.ptr, rp_dtype_name(t->view.dtype));
        n++;
    }
    cr_expect_eq(n, 16, "%d matrices", n); /* of 2 layers, embedding and output matrix */
    rp_gguf_close(f);
}

/* Logits of sums in another order, and the same tokens; in any chunks, with any threads, fused or not the same bits. */
Test(custom_model, generates_the_tokens_of_the_same_weights_in_f32) {
    for (int t = 0; t < N_TYPES; t++) {
        const RpDtype type = example_type((ExampleType)t);
        Run           own, again, f32;
        convert("llama-f32", rp_dtype_name(type));
        check_type_of_weights(type);
        run(in_folder("own.gguf"), "", 1, 1, &own);
        run(in_folder("f32.gguf"), "", 1, 1, &f32);
        cr_expect(distance(&own, &f32) < 1e-3, "%s: logits differ by %g", rp_dtype_name(type), distance(&own, &f32));
        cr_expect_arr_eq(own.tokens, f32.tokens, sizeof own.tokens, "%s", rp_dtype_name(type));
        for (int k = 0; k < 3; k++) {
            run(in_folder("own.gguf"), k == 1 ? "-all,+attention" : "", 1 + k, k == 1 ? 1 : 6 * (size_t)(1 + k / 2),
                &again);
            cr_expect_arr_eq(own.logits, again.logits, own.n_vocab * sizeof(float), "%s, run %d", rp_dtype_name(type),
                             k);
        }
    }
}

/* Every family: without `dot` logits have the bits of the same weights in f32. Those of latent attention are near: the
 * halves of kv_b become f16 if it is not a float matrix. */
Test(custom_model, every_family_has_the_bits_of_f32) {
    const TinyNames *all  = tiny_names();
    const RpDtype    type = fp8_without_dot();
    int              n    = 0;
    for (int i = 0; i < all->n; i++) {
        const char *name = all->name[i];
        Run         own, f32;
        if (strlen(name) < 4 || strcmp(name + strlen(name) - 4, "-f32") != 0) continue;
#ifdef RP_TEST_SLOW
        if (i % 5 != 0) continue;
#endif
        convert(name, rp_dtype_name(type));
        run(in_folder("own.gguf"), "", 2, 4, &own);
        run(in_folder("f32.gguf"), "", 1, 4, &f32);
        if (strncmp(name, "deepseek2", 9) == 0)
            cr_expect(distance(&own, &f32) < 2e-2, "%s: %g", name, distance(&own, &f32));
        else
            cr_expect_arr_eq(own.logits, f32.logits, own.n_vocab * sizeof(float), "%s: %g", name, distance(&own, &f32));
        n++;
    }
    cr_expect_gt(n, 4, "%d models", n);
}

/* ---- training ---- */

/* Losses of a LoRA adapter, whose base stays as it is. */
static void train(const char *path, double losses[5]) {
    const RpTrainOptions o = {.batch      = 2,
                              .seq        = 8,
                              .lr         = 1e-2f,
                              .n_threads  = 2,
                              .device     = "cpu",
                              .lora_rank  = 3,
                              .lora_alpha = 6.0f,
                              .seed       = 4};
    int32_t              tokens[18];
    RpModel             *m;
    RpTrainer           *t;
    OK(rp_model_open(path, NULL, &m));
    OK(rp_trainer_open(m, &o, &t));
    for (int i = 0; i < 18; i++) tokens[i] = i * i % 59 + 3;
    for (int i = 0; i < 5; i++) {
        RpTrainResult r;
        OK(rp_trainer_step(t, tokens, &r));
        losses[i] = r.loss;
    }
    rp_trainer_free(t);
    rp_model_free(m);
}

/* Gradients go through weights of a registered type, dequantised: the losses are those of the same weights in f32. */
Test(custom_model, adapters_learn_on_it) {
    double own[5], f32[5];
    convert("llama-f32", rp_dtype_name(fp8_without_dot()));
    train(in_folder("own.gguf"), own);
    train(in_folder("f32.gguf"), f32);
    cr_expect_lt(own[4], own[0]);
    for (int i = 0; i < 5; i++) cr_expect_eq(own[i], f32[i], "step %d: %.9g, %.9g", i, own[i], f32[i]);
}

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

/* One tensor of 64 elements of type 20001: refused by its number, then by its name is known. */
Test(custom_model, files_need_the_type) {
    Bytes       b = {0};
    RpGgufFile *f;
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "t", 20001, 64, 2, 0);
    put_data(&b, 72);
    write_file(in_folder("own.gguf"), b.p, b.n);
    REFUSED(rp_gguf_open(in_folder("own.gguf"), &f), RP_E_FORMAT, "tensor t is of the unknown type 20001");
    const RpDtype type = example_type(NF4);
    OK(rp_gguf_open(in_folder("own.gguf"), &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, "t");
    cr_expect(t != NULL && t->known && t->view.dtype == type && t->view.nb[1] == 36 && t->bytes == 72);
    rp_gguf_close(f);
    write_file(in_folder("own.gguf"), b.p, b.n - 4);
    REFUSED(rp_gguf_open(in_folder("own.gguf"), &f), RP_E_FORMAT, "tensor t of type nf4 (20001) takes 72 bytes");
    free(b.p);
}

/* The file in memory; the caller frees. */
static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *p = malloc(1 << 20);
    cr_assert(f != NULL && p != NULL, "%s", path);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

Test(custom_model, refuses_invalid_blocks) {
    size_t      n;
    RpGgufFile *f;
    RpModel    *m;
    (void)example_type(NF4);
    convert("llama-f32", "nf4");
    char *bytes = read_file(in_folder("own.gguf"), &n);
    OK(rp_gguf_open(in_folder("own.gguf"), &f));
    const RpGgufTensor *t   = rp_gguf_find_tensor(f, "blk.1.ffn_up.weight");
    char               *row = memmem(bytes, n, rp_view_row(&t->view, 3), 36);
    cr_assert_not_null(row);
    memcpy(row, &(float){NAN}, 4);
    rp_gguf_close(f);
    write_file(in_folder("bad.gguf"), bytes, n);
    REFUSED(rp_model_open(in_folder("bad.gguf"), NULL, &m), RP_E_FORMAT,
            "bad.gguf: tensor blk.1.ffn_up.weight, row 3: block 0 of a row is not valid in nf4");
    cr_expect_neq(rp_requantize(in_folder("bad.gguf"), in_folder("f32.gguf"), "F32", NULL, NULL), RP_OK);
    cr_expect_not_null(strstr(rp_last_error(), "tensor blk.1.ffn_up.weight, row 3: block 0 of a row is not valid"),
                       "%s", rp_last_error());
    free(bytes);
}

Test(custom_model, writes_only_what_it_can_read) {
    const char        *in = tiny_path("llama-f32"), *out = in_folder("own.gguf");
    RpDtypeDescription d = nf4;
    RpDtype            type;
    d.name = "nameless", d.gguf_type = 0;
    OK(rp_dtype_register(&d, &type));
    REFUSED(rp_requantize(in, out, "nameless", NULL, NULL), RP_E_DTYPE,
            "the type nameless has no number in GGUF files");
    d.name = "readonly", d.gguf_type = 20201, d.quantize = NULL;
    OK(rp_dtype_register(&d, &type));
    cr_expect_neq(rp_requantize(in, out, "readonly", NULL, NULL), RP_OK);
    cr_expect_not_null(strstr(rp_last_error(), "rows of readonly cannot be quantised"), "%s", rp_last_error());
    REFUSED(rp_requantize(in, out, "unheard", NULL, NULL), RP_E_ARG, "'unheard' is not a weight type");
    REFUSED(rp_synth("tiny", &(RpSynthOptions){.type = "readonly"}, out), RP_E_ARG, "'readonly' is not a weight type");
    cr_expect_neq(access(out, F_OK), 0);
}
