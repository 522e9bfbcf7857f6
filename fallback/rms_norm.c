/* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:] (Zhang and Sennrich 2019, arXiv:1910.07467)
 *
 * Squares are summed in double (squares.h). Rows are divided among the workers. The scale is known before a row is
 * written, so x and y may be the same memory (I6). */
#include "fallback/rows.h"
#include "fallback/squares.h"

#include <math.h>

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
    return (float)(1.0 / sqrt(rp_square_sum(x, n) / (double)n + (double)eps));
}

RpStatus rp_cpu_rms_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->rms_norm.x, *w = &args->rms_norm.w, *y = &args->dst;
    RP_TRY(RP_CHECK(rms_norm, args));
    const float *weight = rp_is_present(&args->rms_norm.w) ? w->data : NULL;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const float *in = rp_view_row(x, r);
        scaled(in, weight, scale_of(in, x->ne[0], args->params->rms_norm.eps), x->ne[0], rp_view_row(y, r));
    }
    return RP_OK;
}
