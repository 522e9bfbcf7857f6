/* dx[i] = scale * y[i] * (dy[i] - sum_j dy[j] y[j]) for each row, y = softmax(scale * x): the derivative of y[j] with
 * respect to x[i] is scale * y[j] * ((i = j) - y[i]).
 *
 * The sum is in double (dots.h) and known before a row is written, so dx may be dy (I6). Rows are divided among the
 * workers. */
#include "fallback/rows.h"
#include "fallback/training/dots.h"

#include "ops/rules.h"

RP_BODY void centered_body(const float *y, const float *dy, float sum, float scale, int64_t n, float *dx) {
    for (int64_t i = 0; i < n; i++) dx[i] = scale * y[i] * (dy[i] - sum);
}
RP_VARIANTS(centered, (const float *y, const float *dy, float sum, float scale, int64_t n, float *dx),
            (y, dy, sum, scale, n, dx))

RpStatus rp_cpu_soft_max_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t n     = args->dst.ne[0];
    const float   scale = args->params->soft_max_backward.scale;
    RP_TRY(RP_CHECK(soft_max_backward, args));
    for (int64_t r = rp_first_row(&args->dst, ctx); r < rp_end_row(&args->dst, ctx); r++) {
        const float *y = rp_view_row(&args->soft_max_backward.y, r), *dy = rp_view_row(&args->soft_max_backward.dy, r);
        centered(y, dy, (float)rp_dot(dy, y, n), scale, n, rp_view_row(&args->dst, r));
    }
    return RP_OK;
}
