/* squares.h - the sum of squares of a row in double. 16 accumulators, acc[l] taking elements l, l + 16, l + 32, ...,
 * are reduced pairwise (8, 4, 2, 1). This order is the same in all variants, so their bits are too (I8). */
#ifndef FALLBACK_SQUARES_H
#define FALLBACK_SQUARES_H

#include "fallback/simd/simd.h"

enum { RP_SQUARE_LANES = 16 };

RP_BODY void square_lanes_body(const float *x, int64_t n, double *acc) {
    int64_t i = 0;
    for (; i + RP_SQUARE_LANES <= n; i += RP_SQUARE_LANES)
        for (int l = 0; l < RP_SQUARE_LANES; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
}
RP_VARIANTS(square_lanes, (const float *x, int64_t n, double *acc), (x, n, acc))

static inline double rp_square_sum(const float *x, int64_t n) {
    double acc[RP_SQUARE_LANES] = {0.0};
    square_lanes(x, n, acc);
    for (int m = RP_SQUARE_LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    return acc[0];
}

#endif
