/* training.h - trainers of the tiny models of tests/golden, on the tokens of tools/golden/training. */
#ifndef TESTS_TRAIN_TRAINING_H
#define TESTS_TRAIN_TRAINING_H

#include "tests/support/golden.h"

#include <math.h>

enum { MAX_TRAIN_TOKENS = 1024 };

/* [n_seq][seq + 1] tokens of a step, from sequence `first` on: one of 8 sequences each, shifted. */
static inline void train_tokens(int step, int first, int n_seq, int seq, int n_vocab, int32_t *out) {
    cr_assert_leq(n_seq * (seq + 1), MAX_TRAIN_TOKENS);
    for (int s = 0; s < n_seq; s++)
        for (int i = 0; i <= seq; i++) {
            const int a            = (3 * step + first + s) % 8;
            out[s * (seq + 1) + i] = (a * 5 + i * (7 + a) + i * i * (a % 3) + step % 2) % n_vocab;
        }
}

/* A trainer of a tiny model; the caller frees both. */
static inline RpTrainer *train_open(const char *name, const RpTrainOptions *o, RpModel **m) {
    RpTrainer *t;
    *m = golden_open_tiny(name);
    OK(rp_trainer_open(*m, o, &t));
    return t;
}

static inline void train_close(RpTrainer *t, RpModel *m) {
    rp_trainer_free(t);
    rp_model_free(m);
}

/* Steps from the next one to `last`, on accumulate * batch sequences each. Returns the result of the last one. */
static inline RpTrainResult train_steps(RpTrainer *t, const RpModel *m, const RpTrainOptions *o, int last) {
    static int32_t tokens[MAX_TRAIN_TOKENS];
    RpTrainResult  r     = {0};
    const int      n_seq = o->batch * (o->accumulate > 0 ? o->accumulate : 1);
    while (rp_trainer_n_steps(t) < last) {
        train_tokens((int)rp_trainer_n_steps(t) + 1, 0, n_seq, o->seq, rp_model_info(m)->n_vocab, tokens);
        OK(rp_trainer_step(t, tokens, &r));
    }
    return r;
}

/* A path in /tmp that no other test uses. */
static inline const char *train_path(const char *name, char *path, size_t size) {
    snprintf(path, size, "/tmp/rp-train-%d-%s.gguf", (int)getpid(), name);
    return path;
}

/* The checkpoint after one step on `tokens`; the caller closes it. `r` may be NULL. */
static inline RpGgufFile *train_first_step(const RpModel *m, const RpTrainOptions *o, const int32_t *tokens,
                                           RpTrainResult *r) {
    char        path[96];
    RpTrainer  *t;
    RpGgufFile *f;
    OK(rp_trainer_open(m, o, &t));
    OK(rp_trainer_step(t, tokens, r));
    OK(rp_trainer_save(t, train_path("step", path, sizeof path)));
    OK(rp_gguf_open(path, &f));
    remove(path); /* it stays mapped */
    rp_trainer_free(t);
    return f;
}

/* Mean cross entropy of [n_seq][seq + 1] tokens by rp_model_logits, which has an f16 KV cache. */
static inline double train_loss_of_logits(const RpModel *m, const int32_t *tokens, int n_seq, int seq) {
    const int32_t n_vocab = rp_model_info(m)->n_vocab;
    int32_t       ids[MAX_TRAIN_TOKENS];
    double        loss   = 0.0;
    float        *logits = malloc((size_t)n_seq * (size_t)seq * (size_t)n_vocab * sizeof *logits);
    for (int s = 0; s < n_seq; s++) memcpy(ids + s * seq, tokens + s * (seq + 1), (size_t)seq * sizeof *ids);
    OK(rp_model_logits(m, ids, (size_t)n_seq, (size_t)seq, logits));
    for (int i = 0; i < n_seq * seq; i++) {
        double sum = 0.0;
        for (int v = 0; v < n_vocab; v++) sum += exp((double)logits[i * n_vocab + v]);
        loss += log(sum) - (double)logits[i * n_vocab + tokens[i + i / seq + 1]];
    }
    free(logits);
    return loss / (n_seq * seq);
}

/* The *n bytes of a file; the caller frees. */
static inline char *train_read_file(const char *path, size_t *n) {
    enum { ROOM = 1 << 22 };
    char *bytes = malloc(ROOM);
    FILE *f     = fopen(path, "rb");
    cr_assert(f != NULL && bytes != NULL);
    *n = fread(bytes, 1, ROOM, f);
    cr_assert_lt(*n, (size_t)ROOM);
    fclose(f);
    return bytes;
}

/* The checkpoint of a trainer, *n bytes; the caller frees. */
static inline char *train_checkpoint(RpTrainer *t, size_t *n) {
    char path[96];
    OK(rp_trainer_save(t, train_path("bytes", path, sizeof path)));
    char *bytes = train_read_file(path, n);
    remove(path);
    return bytes;
}

/* Both trainers have the same weights, moments and number of steps, bit for bit. */
static inline void train_expect_equal(RpTrainer *a, RpTrainer *b, const char *what) {
    size_t n, n_b;
    char  *x = train_checkpoint(a, &n), *y = train_checkpoint(b, &n_b);
    cr_expect_eq(n, n_b);
    cr_expect(n == n_b && memcmp(x, y, n) == 0, "%s: other bits", what);
    free(x), free(y);
}

/* The largest difference of two trained models' weights. */
static inline double train_difference(RpTrainer *a, RpTrainer *b) {
    char     path[96];
    RpModel *m[2];
    double   worst = 0.0;
    for (int k = 0; k < 2; k++) {
        OK(rp_trainer_export(k == 0 ? a : b, train_path("difference", path, sizeof path), NULL));
        OK(rp_model_open(path, NULL, &m[k]));
        remove(path); /* it stays mapped */
    }
    for (int64_t i = 0; i < rp_gguf_n_tensors(rp_model_file(m[0])); i++) {
        const RpTensorView *x = &rp_gguf_tensor(rp_model_file(m[0]), i)->view,
                           *y = &rp_gguf_tensor(rp_model_file(m[1]), i)->view;
        for (int64_t e = 0; e < rp_view_elems(x); e++)
            worst = fmax(worst, fabs((double)((const float *)x->data)[e] - (double)((const float *)y->data)[e]));
    }
    rp_model_free(m[0]), rp_model_free(m[1]);
    return worst;
}

#endif
