/* vocabulary_case.h - operands of linear_cross_entropy and of its backward op, and both in double. */
#ifndef TESTS_TRAINING_VOCABULARY_CASE_H
#define TESTS_TRAINING_VOCABULARY_CASE_H

#include "tests/support/kernel_test.h"

typedef struct Vocabulary {
    int64_t    k, vocab, rows, n; /* n: rows of a chunk */
    float     *x, *w, *dy, *stats, *chunk, *y, *dx, *dw;
    int32_t   *targets;
    double    *want_y, *want_dx, *want_dw;
    RpOpParams p;
    RpOpArgs   forward, backward;
} Vocabulary;

static inline void vocabulary_args(Vocabulary *v) {
    const int64_t k = v->k, t = v->rows;
    v->forward = (RpOpArgs){
        .dst    = tensor(RP_F32, v->y, t, 1, 1, 1),
        .src    = {tensor(RP_F32, v->x, k, t, 1, 1), tensor(RP_F32, v->w, k, v->vocab, 1, 1),
                   tensor(RP_I32, v->targets, t, 1, 1, 1), tensor(RP_F32, v->stats, RP_LINEAR_STATS, t, 1, 1),
                   tensor(RP_F32, v->chunk, v->n, t, 1, 1)},
        .params = &v->p
    };
    v->backward = (RpOpArgs){
        .dst    = tensor(RP_F32, v->dx, k, t, 1, 1),
        .src    = {tensor(RP_F32, v->dy, t, 1, 1, 1), tensor(RP_F32, v->x, k, t, 1, 1),
                   tensor(RP_F32, v->w, k, v->vocab, 1, 1), tensor(RP_I32, v->targets, t, 1, 1, 1),
                   tensor(RP_F32, v->stats, RP_LINEAR_STATS, t, 1, 1), tensor(RP_F32, v->chunk, v->n, t, 1, 1),
                   tensor(RP_F32, v->dw, k, v->vocab, 1, 1)},
        .params = &v->p
    };
}

static inline float *vocabulary_zeros(int64_t n) { return calloc((size_t)n + 16, sizeof(float)); }

/* Random operands. Every third column, from the second on, has no target. */
static inline Vocabulary *vocabulary_new(int64_t k, int64_t vocab, int64_t rows, int64_t n, float scale) {
    Vocabulary *v = malloc(sizeof *v);
    *v            = (Vocabulary){.k = k, .vocab = vocab, .rows = rows, .n = n};
    v->x = random_floats((size_t)(k * rows), 1), v->w = random_floats((size_t)(k * vocab), 2),
    v->dy    = random_floats((size_t)rows, 3);
    v->stats = vocabulary_zeros(RP_LINEAR_STATS * rows), v->chunk = vocabulary_zeros(n * rows);
    v->y = vocabulary_zeros(rows), v->dx = vocabulary_zeros(k * rows), v->dw = vocabulary_zeros(k * vocab);
    v->want_y                       = calloc((size_t)rows, sizeof(double));
    v->want_dx                      = calloc((size_t)(k * rows), sizeof(double));
    v->want_dw                      = calloc((size_t)(k * vocab), sizeof(double));
    v->targets                      = malloc((size_t)rows * sizeof *v->targets);
    v->p.linear_cross_entropy.scale = scale;
    for (int64_t t = 0; t < rows; t++) v->targets[t] = t % 3 == 1 ? -1 : (int32_t)((5 * t + 2) % vocab);
    vocabulary_args(v);
    return v;
}

static inline void vocabulary_free(Vocabulary *v) {
    free(v->x), free(v->w), free(v->dy), free(v->stats), free(v->chunk), free(v->y), free(v->dx), free(v->dw);
    free(v->want_y), free(v->want_dx), free(v->want_dw), free(v->targets);
    free(v);
}

/* One column by the formulas of ops.h. */
static inline void vocabulary_column(Vocabulary *v, int64_t t) {
    const float *x     = v->x + v->k * t;
    const double scale = v->p.linear_cross_entropy.scale != 0.0f ? (double)v->p.linear_cross_entropy.scale : 1.0;
    double      *l = malloc((size_t)v->vocab * sizeof *l), top = -HUGE_VAL, sum = 0.0;
    for (int64_t i = 0; i < v->vocab; i++) {
        l[i] = 0.0;
        for (int64_t k = 0; k < v->k; k++) l[i] += scale * (double)v->w[v->k * i + k] * (double)x[k];
        top = fmax(top, l[i]);
    }
    for (int64_t i = 0; i < v->vocab; i++) sum += exp(l[i] - top);
    v->want_y[t] = log(sum) + top - l[v->targets[t]];
    for (int64_t i = 0; i < v->vocab; i++) {
        const double d = scale * (exp(l[i] - top) / sum - (i == v->targets[t] ? 1.0 : 0.0)) * (double)v->dy[t];
        for (int64_t k = 0; k < v->k; k++) {
            v->want_dx[v->k * t + k] += d * (double)v->w[v->k * i + k];
            v->want_dw[v->k * i + k] += d * (double)x[k];
        }
    }
    free(l);
}

static inline void vocabulary_in_double(Vocabulary *v) {
    for (int64_t t = 0; t < v->rows; t++)
        if (v->targets[t] >= 0) vocabulary_column(v, t);
}

/* ---- tests/golden/backward.txt ---- */

static inline void vocabulary_line(FILE *f, double *out, int64_t n) {
    char  *line = NULL, *at;
    size_t size = 0;
    cr_assert_not_null(golden_line(f, &line, &size));
    at = line;
    for (int64_t i = 0; i < n; i++) out[i] = strtod(at, &at);
    cr_assert_eq(*at, '\0', "more numbers than the shape has");
    free(line);
}

static inline float vocabulary_value(int64_t i, int64_t seed) {
    return (float)((i * 7919 + seed * 104729) % 2048 - 1024) / 1024.0f;
}

/* The next case of the file, with the losses and gradients of PyTorch; NULL: there is none. */
static inline Vocabulary *vocabulary_golden(FILE *f, int64_t n) {
    char  *line = NULL;
    size_t size = 0;
    int    t, k, vocab;
    float  scale;
    do
        if (golden_line(f, &line, &size) == NULL) return free(line), NULL;
    while (sscanf(line, "linear_cross_entropy %d %d %d %f", &t, &k, &vocab, &scale) != 4);
    free(line);
    Vocabulary *v = vocabulary_new(k, vocab, t, n, scale);
    for (int64_t i = 0; i < k * t; i++) v->x[i] = vocabulary_value(i, 1);
    for (int64_t i = 0; i < k * vocab; i++) v->w[i] = vocabulary_value(i, 2);
    for (int64_t i = 0; i < t; i++) v->dy[i] = vocabulary_value(i, 3);
    vocabulary_line(f, v->want_y, t), vocabulary_line(f, v->want_dx, (int64_t)k * t);
    vocabulary_line(f, v->want_dw, (int64_t)k * vocab);
    return v;
}

#endif
