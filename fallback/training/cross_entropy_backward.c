/* dx[i,t] = (exp(x[i,t] - top) / sum - (i = target)) * dy[t], sum = sum_i exp(x[i,t] - top); 0 where the target is -1
 *
 * The element of the target is computed in double: where the softmax is near 1, the difference has few bits in f32.
 * Rows are divided among the workers. The sum is known before a row is written, so x and dx may be the same memory
 * (I6). A NaN or +inf in a row makes all of its gradient NaN. */
#include "fallback/rows.h"
#include "fallback/training/log_sum.h"

#include "ops/rules.h"

/* y = exp(x - top) * inverse * factor */
RP_BODY void weighted_body(const float *x, float top, float inverse, float factor, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_expf(x[i] - top) * inverse * factor;
}
RP_VARIANTS(weighted, (const float *x, float top, float inverse, float factor, int64_t n, float *y),
            (x, top, inverse, factor, n, y))

static void gradient(const float *x, int32_t target, float dy, int64_t n, float *dx) {
    const LogSum s         = rp_log_sum(x, n);
    const double p         = (double)rp_expf(x[target] - s.top) / s.sum;
    const float  of_target = (float)((p - 1.0) * (double)dy);
    weighted(x, s.top, (float)(1.0 / s.sum), dy, n, dx);
    dx[target] = of_target;
}

RpStatus rp_cpu_cross_entropy_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->cross_entropy_backward.x, *targets = &args->cross_entropy_backward.targets;
    const float        *dy = args->cross_entropy_backward.dy.data;
    RP_TRY(RP_CHECK(cross_entropy_backward, args));
    RP_TRY(rp_check_targets("cross_entropy_backward", targets, x->ne[0]));
    for (int64_t r = rp_first_row(x, ctx); r < rp_end_row(x, ctx); r++) {
        const int32_t target = ((const int32_t *)targets->data)[r];
        float        *dx     = rp_view_row(&args->dst, r);
        if (target >= 0)
            gradient(rp_view_row(x, r), target, dy[r], x->ne[0], dx);
        else
            memset(dx, 0, (size_t)x->ne[0] * sizeof *dx);
    }
    return RP_OK;
}
