/* dx = dy * s * (1 + x * (1 - s)), s = 1 / (1 + exp(-x)), the gradient of y = x s:  y' = s + x s' and s' = s (1 -
 * s). */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

#include "ops/rules.h"

RP_BODY void slope_body(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float s = 1.0f / (1.0f + rp_expf(-x[i]));
        dx[i]         = dy[i] * s * fmaf(x[i], 1.0f - s, 1.0f);
    }
}
RP_VARIANTS(slope, (const float *x, const float *dy, float *dx, int64_t n), (x, dy, dx, n))

static void silu_range(const RpOpArgs *args, const float *dy, float *dx, int64_t row, int64_t from, int64_t n) {
    slope((const float *)rp_view_row(&args->silu_backward.x, row) + from, dy, dx, n);
}

RpStatus rp_cpu_silu_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(silu_backward, args));
    rp_for_ranges(args, ctx, silu_range);
    return RP_OK;
}
