/* The gradient of y[:,t] = sum_j weights[j,t] * x[:,j,t]:
 *
 *     dx[:,j,t] = weights[j,t] * dy[:,t]          dweights[j,t] = sum_i dy[i,t] * x[i,j,t], in double
 *
 * Rows (j,t) are divided among the workers. */
#include "fallback/rows.h"
#include "fallback/training/dots.h"

#include "ops/rules.h"

RP_BODY void scaled_body(const float *x, float w, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = w * x[i];
}
RP_VARIANTS(scaled, (const float *x, float w, float *y, int64_t n), (x, w, y, n))

RpStatus rp_cpu_combine_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->combine_backward.x, *dx = &args->dst;
    const float        *weights  = args->combine_backward.weights.data;
    float              *dweights = args->combine_backward.dweights.data;
    RP_TRY(RP_CHECK(combine_backward, args));
    for (int64_t r = rp_first_row(dx, ctx); r < rp_end_row(dx, ctx); r++) {
        const float *dy = rp_view_row(&args->combine_backward.dy, r / x->ne[1]);
        dweights[r]     = (float)rp_dot(dy, rp_view_row(x, r), x->ne[0]);
        scaled(dy, weights[r], rp_view_row(dx, r), x->ne[0]);
    }
    return RP_OK;
}
