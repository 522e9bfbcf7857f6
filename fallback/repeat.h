/* repeat.h - y = f(a, b) element by element, where b repeats to a's shape. */
#ifndef FALLBACK_REPEAT_H
#define FALLBACK_REPEAT_H

#include "fallback/rows.h"

/* The row of b that belongs to row r of a. */
static inline const float *rp_repeat_row(const OpArgs *args, int64_t r) {
    const TensorView *a = &args->src[0], *b = &args->src[1];
    const int64_t     i1 = r % a->ne[1], i2 = r / a->ne[1] % a->ne[2], i3 = r / (a->ne[1] * a->ne[2]);
    return (const float *)(const void *)((const char *)b->data + (size_t)(i1 % b->ne[1]) * b->nb[1] +
                                         (size_t)(i2 % b->ne[2]) * b->nb[2] +
                                         (size_t)(i3 % b->ne[3]) * b->nb[3]);
}

/* A span function whose inner loop is `expression` of a and b. */
#define RP_REPEAT_SPAN(name, expression)                                                                     \
    static void name(const OpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {   \
        const float  *z = rp_repeat_row(args, row);                                                          \
        const int64_t m = args->src[1].ne[0];                                                                \
        if (m == args->src[0].ne[0])                                                                         \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const float a = x[i], b = z[from + i];                                                       \
                y[i] = (expression);                                                                         \
            }                                                                                                \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const float a = x[i], b = z[(from + i) % m];                                                 \
                y[i] = (expression);                                                                         \
            }                                                                                                \
    }

#endif
