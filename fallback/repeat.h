/* repeat.h - y = f(a, b) element by element, where b repeats to the shape of a:
 *
 *     y[i0,i1,i2,i3] = f(a[i0,i1,i2,i3], b[i0 % n0, i1 % n1, i2 % n2, i3 % n3])     n: dimensions of b
 *
 * Example: a bias [512] is added to each row of a [512, t]. */
#ifndef FALLBACK_REPEAT_H
#define FALLBACK_REPEAT_H

#include "fallback/rows.h"

/* The row of b that goes with row r of a. */
static inline const float *rp_repeat_row(const RpOpArgs *args, int64_t r) {
    const RpTensorView *a = &args->binary.a, *b = &args->binary.b;
    const int64_t       i1 = r % a->ne[1], i2 = r / a->ne[1] % a->ne[2], i3 = r / (a->ne[1] * a->ne[2]);
    return (const float *)(const void *)((const char *)b->data + (size_t)(i1 % b->ne[1]) * b->nb[1] +
                                         (size_t)(i2 % b->ne[2]) * b->nb[2] + (size_t)(i3 % b->ne[3]) * b->nb[3]);
}

/* Defines a RangeFunction (rows.h) that computes y = expression(a, b) for elements [from, from + n) of a row. Rows of b
 * as long as those of a need no modulo, so that the compiler vectorises the loop. */
#define RP_REPEAT_RANGE(name, expression)                                                                              \
    static void name(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {           \
        const float  *z = rp_repeat_row(args, row);                                                                    \
        const int64_t m = args->binary.b.ne[0];                                                                        \
        if (m == args->binary.a.ne[0])                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const float a = x[i], b = z[from + i];                                                                 \
                y[i] = (expression);                                                                                   \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const float a = x[i], b = z[(from + i) % m];                                                           \
                y[i] = (expression);                                                                                   \
            }                                                                                                          \
    }

#endif
