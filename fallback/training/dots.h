/* dots.h - the dot product of two rows in double. 16 accumulators, acc[l] taking elements l, l + 16, l + 32, ..., are
 * reduced pairwise (8, 4, 2, 1). This order is the same in all variants, so their bits are too (I8). */
#ifndef FALLBACK_TRAINING_DOTS_H
#define FALLBACK_TRAINING_DOTS_H

#include "fallback/simd/simd.h"

enum { RP_DOT_LANES = 16 };

RP_BODY void dot_body(const float *x, const float *y, int64_t n, double *out) {
    double  acc[RP_DOT_LANES] = {0.0};
    int64_t i                 = 0;
    for (; i + RP_DOT_LANES <= n; i += RP_DOT_LANES)
        for (int l = 0; l < RP_DOT_LANES; l++) acc[l] += (double)x[i + l] * (double)y[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l] * (double)y[i + l];
    for (int m = RP_DOT_LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    *out = acc[0];
}
RP_VARIANTS(dot, (const float *x, const float *y, int64_t n, double *out), (x, y, n, out))

static inline double rp_dot(const float *x, const float *y, int64_t n) {
    double sum;
    dot(x, y, n, &sum);
    return sum;
}

#endif
