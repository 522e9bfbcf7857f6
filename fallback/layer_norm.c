/* y[r,:] = (x[r,:] - mean(x[r,:])) * rsqrt(var(x[r,:]) + eps) * w[:] + b[:] (Ba et al. 2016, arXiv:1607.06450)
 *
 * Sums are in double: 16 accumulators, acc[l] taking elements l, l + 16, l + 32, ..., are reduced pairwise (8, 4, 2,
 * 1). This order is the same in all variants, so their bits are too (I8). The mean is known before the deviations are
 * summed, and both before a row is written, so x and y may be the same memory (I6). */
#include "fallback/rows.h"
#include "fallback/simd/simd.h"

#include <math.h>

enum { LANES = 16 };

RP_BODY void sum_lanes_body(const float *x, int64_t n, double *acc) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += (double)x[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l];
}
RP_VARIANTS(sum_lanes, (const float *x, int64_t n, double *acc), (x, n, acc))

RP_BODY void deviation_lanes_body(const float *x, int64_t n, double mean, double *acc) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += ((double)x[i + l] - mean) * ((double)x[i + l] - mean);
    for (int l = 0; i + l < n; l++) acc[l] += ((double)x[i + l] - mean) * ((double)x[i + l] - mean);
}
RP_VARIANTS(deviation_lanes, (const float *x, int64_t n, double mean, double *acc), (x, n, mean, acc))

/* y = (x - mean) * scale * w + b; w and b may be NULL. */
RP_BODY void scaled_body(const float *x, const float *w, const float *b, float mean, float scale, int64_t n, float *y) {
    if (w != NULL && b != NULL)
        for (int64_t i = 0; i < n; i++) y[i] = fmaf((x[i] - mean) * scale, w[i], b[i]);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = fmaf((x[i] - mean) * scale, w != NULL ? w[i] : 1.0f, b != NULL ? b[i] : 0.0f);
}
RP_VARIANTS(scaled, (const float *x, const float *w, const float *b, float mean, float scale, int64_t n, float *y),
            (x, w, b, mean, scale, n, y))

static double reduced(double *acc) {
    for (int m = LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    return acc[0];
}

RpStatus rp_cpu_layer_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->layer_norm.x, *y = &args->dst;
    const int64_t       n = x->ne[0];
    RP_TRY(RP_CHECK(layer_norm, args));
    const float *w = rp_is_present(&args->layer_norm.w) ? args->layer_norm.w.data : NULL;
    const float *b = rp_is_present(&args->layer_norm.b) ? args->layer_norm.b.data : NULL;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const float *in          = rp_view_row(x, r);
        double       sums[LANES] = {0.0}, squares[LANES] = {0.0};
        sum_lanes(in, n, sums);
        const double mean = reduced(sums) / (double)n;
        deviation_lanes(in, n, mean, squares);
        const double scale = 1.0 / sqrt(reduced(squares) / (double)n + (double)args->params->layer_norm.eps);
        scaled(in, w, b, (float)mean, (float)scale, n, rp_view_row(y, r));
    }
    return RP_OK;
}
