/* Directories of Hugging Face against transformers: the logits after each token of a tiny model, computed in f32,
 * also where the weights are bf16, f16 or FP8 (tools/golden/hf/golden_hf.py). Passes that quantise activations are
 * off. */
#include "tests/support/golden.h"

#include <dirent.h>
#include <math.h>

enum { MAX_IDS = 32, N_VOCAB = 64, N_DECODE = 4, MAX_MODELS = 96 };

typedef struct Names {
    char name[MAX_MODELS][48];
    int  n;
} Names;

static int order(const void *a, const void *b) { return strcmp(a, b); }

static const Names *names(void) {
    static Names list;
    DIR         *dir = opendir(GOLDEN_DIR "hf");
    cr_assert_not_null(dir);
    list.n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, GOLDEN_DIR "hf/%.200s/logits.txt", entry->d_name);
        if (access(path, R_OK) != 0) continue;
        cr_assert_lt(list.n, MAX_MODELS, "%s", entry->d_name);
        snprintf(list.name[list.n++], sizeof list.name[0], "%.47s", entry->d_name);
    }
    closedir(dir);
    cr_assert_geq(list.n, 74);
    qsort(list.name, (size_t)list.n, sizeof list.name[0], order);
    return &list;
}

typedef struct Rows {
    float  x[MAX_IDS][N_VOCAB];
    size_t n;
} Rows;

static void keep_row(size_t i, const float *logits, void *user) {
    Rows *rows = user;
    (void)i;
    memcpy(rows->x[rows->n++], logits, sizeof rows->x[0]);
}

/* Scores all but the last N_DECODE ids as a batch, and these one by one. */
static void run_rows(const RpModel *m, const int32_t *ids, size_t n, Rows *out) {
    RpSession    *s;
    const int32_t n_ctx = rp_model_info(m)->n_ctx_train;
    out->n              = 0;
    cr_assert_eq(rp_model_info(m)->n_vocab, N_VOCAB);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = n_ctx < 32 ? n_ctx : 32, .n_threads = 2, .passes = "-quantize"},
                       &s));
    OK(rp_session_score(s, ids, n - N_DECODE, keep_row, out));
    for (size_t i = n - N_DECODE; i < n; i++) {
        OK(rp_session_step(s, ids[i]));
        keep_row(i, rp_session_logits(s), out);
    }
    rp_session_free(s);
}

/* The largest difference of a logit, in standard deviations of the logits of its row. */
static double distance(const Rows *a, const Rows *b) {
    double worst = 0.0;
    for (size_t r = 0; r < b->n; r++) {
        double mean = 0.0, spread = 0.0, top = 0.0;
        for (int i = 0; i < N_VOCAB; i++) mean += (double)b->x[r][i] / N_VOCAB;
        for (int i = 0; i < N_VOCAB; i++) {
            spread += ((double)b->x[r][i] - mean) * ((double)b->x[r][i] - mean) / N_VOCAB;
            top = fmax(top, fabs((double)a->x[r][i] - (double)b->x[r][i]));
            if (!isfinite(a->x[r][i])) return (double)INFINITY;
        }
        worst = fmax(worst, top / sqrt(spread));
    }
    return worst;
}

static size_t read_golden(const char *name, int32_t *ids, Rows *theirs) {
    char   path[512], *line = NULL;
    size_t size = 0, n = 0;
    snprintf(path, sizeof path, "hf/%s/logits.txt", name);
    FILE *f = golden_open(path);
    char *p = golden_line(f, &line, &size);
    cr_assert(p != NULL && strncmp(p, "ids ", 4) == 0, "%s", path);
    for (char *end = p + 3; *end != '\0' && n < MAX_IDS;) ids[n++] = (int32_t)strtol(end, &end, 10);
    for (theirs->n = 0; (p = golden_line(f, &line, &size)) != NULL; theirs->n++) {
        cr_assert(theirs->n < n && strncmp(p, "logits ", 7) == 0, "%s", path);
        cr_assert_eq(golden_floats(p + 7, theirs->x[theirs->n], N_VOCAB), (size_t)N_VOCAB, "%s", path);
    }
    cr_assert_eq(theirs->n, n, "%s", path);
    free(line);
    fclose(f);
    return n;
}

static RpModel *open_model(const char *name, bool copy) {
    char     path[512];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "hf/%s", name);
    OK(rp_model_open(path, &(RpModelOptions){.copy = copy}, &m));
    return m;
}

/* The KV cache is f16: 2^-11 of a value. */
static const double bound = 0.01;

Test(hf_models, logits_are_those_of_transformers) {
    static Rows theirs, ours;
    for (int i = 0; i < names()->n; i++) {
        int32_t      ids[MAX_IDS];
        const char  *name = names()->name[i];
        const size_t n    = read_golden(name, ids, &theirs);
        RpModel     *m    = open_model(name, false);
        run_rows(m, ids, n, &ours);
        const double d = distance(&ours, &theirs);
        cr_expect_lt(d, bound, "%s: %.4f", name, d);
        if (getenv("HF_SHOW") != NULL) fprintf(stderr, "%-20s %.5f\n", name, d);
        rp_model_free(m);
    }
}

/* rp_requantize writes the rows of q and k in the order of GGUF. Sums over a head have another order then. */
Test(hf_models, a_gguf_file_made_of_a_directory_has_the_same_logits) {
    static Rows ours, again;
    char        path[] = "/tmp/reprise-hf-XXXXXX";
    const int   fd     = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    for (int i = 0; i < names()->n; i++) {
        int32_t      ids[MAX_IDS];
        const char  *name = names()->name[i];
        const size_t n    = read_golden(name, ids, &again);
        RpModel     *m    = open_model(name, false);
        char         from[512];
        run_rows(m, ids, n, &ours);
        rp_model_free(m);
        snprintf(from, sizeof from, GOLDEN_DIR "hf/%s", name);
        OK(rp_requantize(from, path, "F32", NULL, NULL));
        OK(rp_model_open(path, NULL, &m));
        run_rows(m, ids, n, &again);
        rp_model_free(m);
        const double d = distance(&again, &ours);
        cr_expect_lt(d, 0.003, "%s: %g", name, d);
    }
    unlink(path);
}

Test(hf_models, a_copy_in_memory_has_the_same_logits) {
    static Rows ours, again;
    int32_t     ids[MAX_IDS];
    for (int i = 0; i < names()->n; i++) {
        const size_t n = read_golden(names()->name[i], ids, &again);
        RpModel     *a = open_model(names()->name[i], false), *b = open_model(names()->name[i], true);
        run_rows(a, ids, n, &ours);
        run_rows(b, ids, n, &again);
        cr_expect_eq(memcmp(ours.x, again.x, ours.n * sizeof ours.x[0]), 0, "%s", names()->name[i]);
        rp_model_free(a);
        rp_model_free(b);
    }
}
