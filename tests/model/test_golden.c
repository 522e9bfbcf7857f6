/* Whole models against llama.cpp, and passes against each other.
 *
 * Both engines quantise activations to 8 bits, but in different blocks. Each golden file of a tiny model
 * therefore has two sets of logits: llama.cpp's, and exact ones with the weights dequantised to f32.
 *     pass quantize off     must give the exact logits
 *     pass quantize on      must be about as close to the exact logits as llama.cpp is */
#include "tests/support/case.h"
#include "tests/support/tiny.h"

#include "base/dtypes.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_IDS = 4096 };

/* ---- tiny models of every family and type ---- */

enum { N_DECODE = 4, MAX_ROWS = 32, MAX_VOCAB = 128 };

/* Rows of logits of one run. */
typedef struct Rows {
    float  x[MAX_ROWS][MAX_VOCAB];
    size_t n_rows, n_vocab;
} Rows;

/* The largest difference of a logit, in standard deviations of the logits of its row. */
static double distance(const Rows *a, const Rows *b) {
    double worst = 0.0;
    cr_assert_eq(a->n_rows, b->n_rows);
    for (size_t r = 0; r < a->n_rows; r++) {
        double mean = 0.0, spread = 0.0, top = 0.0;
        for (size_t i = 0; i < a->n_vocab; i++) mean += (double)a->x[r][i] / (double)a->n_vocab;
        for (size_t i = 0; i < a->n_vocab; i++) {
            cr_assert(isfinite(a->x[r][i]) && isfinite(b->x[r][i]), CASE(r, i));
            spread += ((double)a->x[r][i] - mean) * ((double)a->x[r][i] - mean) / (double)a->n_vocab;
            top = fmax(top, fabs((double)a->x[r][i] - (double)b->x[r][i]));
        }
        worst = fmax(worst, top / sqrt(spread));
    }
    return worst;
}

static void keep_row(size_t i, const float *logits, void *user) {
    Rows *rows = user;
    (void)i;
    memcpy(rows->x[rows->n_rows++], logits, rows->n_vocab * sizeof(float));
}

static void read_rows(FILE *f, const char *label, size_t n, size_t n_vocab, Rows *out) {
    char  *line = NULL;
    size_t size = 0;
    *out        = (Rows){.n_vocab = n_vocab};
    for (; out->n_rows < n; out->n_rows++) {
        const char *text = golden_line(f, &line, &size);
        cr_assert(text != NULL && strncmp(text, label, strlen(label)) == 0, "%zu rows of %s", out->n_rows, label);
        cr_assert_eq(golden_floats(text + strlen(label), out->x[out->n_rows], MAX_VOCAB), n_vocab, "%s", text);
    }
    free(line);
}

/* Scores all but the last N_DECODE ids as a batch, and the rest one by one. */
static void run_rows(const RpModel *m, const char *passes, const int32_t *ids, size_t n, Rows *out) {
    RpSession *s;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 64, .n_threads = 2, .passes = passes}, &s));
    *out = (Rows){.n_vocab = (size_t)rp_model_info(m)->n_vocab};
    OK(rp_session_score(s, ids, n - N_DECODE, keep_row, out));
    for (size_t i = n - N_DECODE; i < n; i++) {
        OK(rp_session_step(s, ids[i]));
        keep_row(i, rp_session_logits(s), out);
    }
    rp_session_free(s);
}

/* Adds what the file has: the types of its tensors; float weights only, or quantised ones. */
static void count_types(const char *name, bool has[RP_DTYPE_COUNT], bool *floats, bool *blocks) {
    RpGgufFile *file = tiny_open(name);
    bool        any  = false;
    for (int64_t i = 0; i < rp_gguf_n_tensors(file); i++) {
        const RpDtype type = rp_gguf_tensor(file, i)->view.dtype;
        has[type]          = true;
        any                = any || rp_dtype_is_quant(type);
    }
    *floats = *floats || !any;
    *blocks = *blocks || any;
    rp_gguf_close(file);
}

/* without: the plans without the pass quantize, and without any, are tested too. */
static void check_tiny(const char *name, bool without) {
    static Rows theirs, exact, ours, unquantized, unfused;
    char        path[1024], *line = NULL;
    size_t      size = 0;
    RpModel    *m;
    int32_t     ids[MAX_IDS];
    bool        has[RP_DTYPE_COUNT] = {false}, floats = false, blocks = false;
    count_types(name, has, &floats, &blocks);
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    snprintf(path, sizeof path, "tiny/%s.txt", name);
    FILE       *f    = golden_open(path);
    const char *text = golden_line(f, &line, &size);
    cr_assert(text != NULL && strncmp(text, "ids ", 4) == 0);
    const size_t n = golden_ids(text + 4, ids, MAX_IDS), n_vocab = (size_t)rp_model_info(m)->n_vocab;
    cr_assert(n > N_DECODE && n <= MAX_ROWS && n_vocab <= MAX_VOCAB);
    read_rows(f, "logits ", n, n_vocab, &theirs);
    read_rows(f, "exact ", n, n_vocab, &exact);
    run_rows(m, "", ids, n, &ours);
    const double us = distance(&exact, &ours), them = distance(&exact, &theirs);
    if (without) {
        if (blocks)
            run_rows(m, "-quantize", ids, n, &unquantized);
        else
            unquantized = ours; /* the pass has nothing to quantise: it would be the same run */
        run_rows(m, "-all", ids, n, &unfused);
        cr_log_info("%-22s from exact: llama.cpp %.5f, reprise %.5f, without quantize %.5f, unfused %.5f", name, them,
                    us, distance(&exact, &unquantized), distance(&exact, &unfused));
        /* Without quantised activations, the f16 KV cache (in both engines) and the order of sums in each layer
         * remain. */
        const double close = fmax(3e-3, 3e-4 * rp_model_info(m)->n_layer);
        cr_expect_leq(distance(&exact, &unquantized), close, "%s without quantised activations is off by %g", name,
                      distance(&exact, &unquantized));
        cr_expect_leq(distance(&exact, &unfused), close, "%s without passes is off by %g", name,
                      distance(&exact, &unfused));
    }
    /* The largest ratios are 1.53, of the model that also rounds activations in f16 tiles, and 1.75, of the model with
     * 26 layers on the simulated device: another order of sums moves what is rounded, in each layer. */
    const double ratio = rp_model_info(m)->n_layer > 20 ? 1.8 : 1.6;
    cr_expect_leq(us, ratio * them + 3e-3, "%s is off by %g, llama.cpp by %g", name, us, them);
    free(line);
    fclose(f);
    rp_model_free(m);
}

/* Slow builds and the simulated device run every model as users do, and plans without passes of some of them: other
 * builds run those of all, and so does every test with REPRISE_TEST_EVERY_MODEL. */
#if defined(RP_TEST_SLOW) || defined(__SANITIZE_ADDRESS__)
enum { EVERY_WITHOUT = 4 };
#else
enum { EVERY_WITHOUT = 1 };
#endif

Test(golden, tiny_models_give_the_logits_of_llama_cpp) {
    const int every = getenv("REPRISE_TEST_EVERY_MODEL") != NULL ? 1 : EVERY_WITHOUT;
    for (int i = 0; i < tiny_names()->n; i++) check_tiny(tiny_names()->name[i], i % every == 0);
}

Test(golden, there_are_models_of_every_family_and_weight_type) {
    bool has[RP_DTYPE_COUNT] = {false};
    for (int a = 0; rp_arch_name(a) != NULL; a++) {
        bool floats = false, blocks = false;
        if (tiny_is_elsewhere(rp_arch_name(a))) continue;
        for (int i = 0; i < tiny_names()->n; i++)
            if (tiny_is_of(tiny_names()->name[i], rp_arch_name(a)))
                count_types(tiny_names()->name[i], has, &floats, &blocks);
        cr_expect(floats, "tests/golden/tiny has no model of family %s with float weights", rp_arch_name(a));
        cr_expect(blocks, "tests/golden/tiny has no model of family %s with quantised weights", rp_arch_name(a));
    }
#define X(ID, name, ...) cr_expect(has[RP_##ID], "tests/golden/tiny has no model with weights in " #name);
    RP_QUANTS(X)
#undef X
}

/* Eager mode on a GPU, for a few families; replays are tested above. */
Test(golden, eager_mode_gives_the_logits_of_llama_cpp) {
    static const char *const names[] = {"llama-mix",    "qwen3-mix-k",   "gemma3-mix",    "mixtral-mix",
                                        "qwen2moe-mix", "gpt-oss-mxfp4", "deepseek2-mix", "llama-f16"};
    const char              *mode    = getenv("REPRISE_MODE");
    if (mode == NULL || strcmp(mode, "eager") != 0) cr_skip_test("REPRISE_MODE is not eager");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) check_tiny(names[i], true);
}

/* ---- passes ----
 *
 * `attention` and `quantize` change the arithmetic, and are tested above. The other passes must not change a
 * bit of what the CPU computes. */

static bool changes_arithmetic(const char *pass) {
    return strcmp(pass, "attention") == 0 || strcmp(pass, "quantize") == 0;
}

static void expect_same_bits(const Rows *a, const Rows *b, const char *model, const char *passes) {
    cr_assert_eq(a->n_rows, b->n_rows);
    for (size_t r = 0; r < a->n_rows; r++)
        cr_expect_arr_eq(a->x[r], b->x[r], a->n_vocab * sizeof(float), "%s, passes '%s': row %zu of %zu", model, passes,
                         r, a->n_rows);
}

/* Each pass alone gives the bits of no pass; all but one give the bits of `attention` and `quantize` alone. */
static void check_passes(const char *name) {
    static Rows   none, two, got;
    const int32_t ids[] = {3, 17, 5, 40, 8, 21, 9};
    char          path[1024], passes[64];
    const size_t  n = sizeof ids / sizeof ids[0];
    RpModel      *m;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    run_rows(m, "-all", ids, n, &none);
    run_rows(m, "-all,+attention,+quantize", ids, n, &two);
    run_rows(m, "", ids, n, &got);
    expect_same_bits(&got, &two, name, "");
    for (int i = 0; i < rp_pass_count(); i++) {
        snprintf(passes, sizeof passes, "-all,+%s", rp_pass_name(i));
        run_rows(m, passes, ids, n, &got);
        if (changes_arithmetic(rp_pass_name(i)))
            cr_expect_leq(distance(&none, &got), 0.3, "%s, passes '%s'", name, passes);
        else
            expect_same_bits(&got, &none, name, passes);
        if (changes_arithmetic(rp_pass_name(i))) continue;
        snprintf(passes, sizeof passes, "-%s", rp_pass_name(i));
        run_rows(m, passes, ids, n, &got);
        expect_same_bits(&got, &two, name, passes);
    }
    rp_model_free(m);
}

static bool is_on_cpu(void) {
    RpModel   *m;
    RpSession *s;
    OK(rp_model_open(GOLDEN_DIR "tiny/llama-f32.gguf", NULL, &m));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 8}, &s));
    const bool cpu = strcmp(rp_session_info(s).device, "cpu") == 0;
    rp_session_free(s);
    rp_model_free(m);
    return cpu;
}

#ifdef RP_TEST_SLOW
enum { EVERY_TINY = 11 };
#elif defined(__SANITIZE_ADDRESS__)
enum { EVERY_TINY = 3 }; /* the bits are those of the build without it, where every model is compared */
#else
enum { EVERY_TINY = 1 };
#endif

Test(golden, each_pass_alone_and_all_but_each_give_the_same_bits) {
    if (!is_on_cpu()) cr_skip_test("fused kernels of a GPU may add in another order");
    for (int i = 0; i < tiny_names()->n; i += EVERY_TINY) check_passes(tiny_names()->name[i]);
}
