/* y = cap * tanh(scale * x / cap), element by element. */
#include "fallback/soft_cap.h"
#include "fallback/rows.h"

RP_BODY void soft_cap_body(const float *x, float *y, int64_t n, float scale, float cap) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_soft_cap(scale * x[i], cap);
}
RP_VARIANTS(soft_cap, (const float *x, float *y, int64_t n, float scale, float cap), (x, y, n, scale, cap))

static void soft_cap_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    (void)row, (void)from;
    soft_cap(x, y, n, args->params->soft_cap.scale, *(const float *)args->soft_cap.cap.data);
}

RpStatus rp_cpu_soft_cap(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(soft_cap, args));
    rp_for_ranges(args, ctx, soft_cap_range);
    return RP_OK;
}
