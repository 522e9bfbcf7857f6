/* y = max(x, 0)^2, element by element. */
#include "fallback/rows.h"

static void relu_sqr_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    (void)args, (void)row, (void)from;
    for (int64_t i = 0; i < n; i++) {
        const float r = x[i] > 0.0f ? x[i] : 0.0f;
        y[i]          = r * r;
    }
}

RpStatus rp_cpu_relu_sqr(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(relu_sqr, args));
    rp_for_ranges(args, ctx, relu_sqr_range);
    return RP_OK;
}
