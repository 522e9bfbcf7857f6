/* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:] (Zhang and Sennrich 2019, arXiv:1910.07467)
 *
 * Squares are summed in double by 16 accumulators, acc[l] taking elements l, l + 16, l + 32, ..., which are then
 * reduced pairwise (8, 4, 2, 1). This order is the same in all variants, so their bits are too (I8). Rows are divided
 * among the workers. The scale is known before a row is written, so x and y may be the same memory (I6). */
#include "fallback/simd/float.h"
#include "fallback/rows.h"

enum { LANES = 16 };

RP_BODY void square_lanes_body(const float *x, int64_t n, double *acc) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
}
RP_VARIANTS(square_lanes, (const float *x, int64_t n, double *acc), (x, n, acc))

/* y = x * scale * w; w may be NULL. */
RP_BODY void scaled_body(const float *x, const float *w, float scale, int64_t n, float *y) {
    if (w != NULL)
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale;
}
RP_VARIANTS(scaled, (const float *x, const float *w, float scale, int64_t n, float *y), (x, w, scale, n, y))

/* rsqrt(mean(x^2) + eps) */
static float scale_of(const float *x, int64_t n, float eps) {
    double acc[LANES] = {0.0};
    square_lanes(x, n, acc);
    for (int m = LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    return (float)(1.0 / sqrt(acc[0] / (double)n + (double)eps));
}

RpStatus rp_cpu_rms_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->rms_norm.x, *w = &args->rms_norm.w, *y = &args->dst;
    RP_TRY(rp_check_rms_norm(args));
    const float *weight = rp_is_present(&args->rms_norm.w) ? w->data : NULL;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const float *in = rp_view_row(x, r);
        scaled(in, weight, scale_of(in, x->ne[0], args->params->rms_norm.eps), x->ne[0], rp_view_row(y, r));
    }
    return RP_OK;
}
