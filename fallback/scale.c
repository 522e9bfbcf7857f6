/* y = scale * x + bias, element by element. */
#include "fallback/rows.h"

static void scale_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    const RpScaleParams *p = &args->params->scale;
    (void)row, (void)from;
    for (int64_t i = 0; i < n; i++) y[i] = p->scale * x[i] + p->bias;
}

RpStatus rp_cpu_scale(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(scale, args));
    rp_for_ranges(args, ctx, scale_range);
    return RP_OK;
}
