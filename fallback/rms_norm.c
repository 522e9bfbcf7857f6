/* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:]
 *
 * The squares are added in 16 lanes of double, lane i taking elements i, i + 16, ...: one order for all
 * variants. */
#include "fallback/float.h"
#include "fallback/rows.h"

enum { LANES = 16 };

RP_BODY void square_lanes_body(const float *x, int64_t n, double *acc) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l] * (double)x[i + l];
}
RP_VARIANTS(square_lanes, (const float *x, int64_t n, double *acc), (x, n, acc))

RP_BODY void scaled_body(const float *x, const float *w, float scale, int64_t n, float *y) {
    if (w != NULL)
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale;
}
RP_VARIANTS(scaled, (const float *x, const float *w, float scale, int64_t n, float *y), (x, w, scale, n, y))

static float scale_of(const float *x, int64_t n, float eps) {
    double acc[LANES] = {0.0};
    square_lanes(x, n, acc);
    for (int m = LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    return (float)(1.0 / sqrt(acc[0] / (double)n + (double)eps));
}

RpStatus rp_cpu_rms_norm(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *x = &args->src[0], *w = &args->src[1], *y = &args->dst;
    RP_TRY(rp_check_rms_norm(args));
    const float *weight = rp_has_src(args, 1) ? w->data : NULL;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const float *in = rp_view_row(x, r);
        scaled(in, weight, scale_of(in, x->ne[0], args->params->rms_norm.eps), x->ne[0], rp_view_row(y, r));
    }
    return RP_OK;
}
