/* y = x / (1 + exp(-x)), element by element; rp_expf (float.h) gives the same bits in every variant. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

RP_BODY void silu_body(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + rp_expf(-x[i]));
}
RP_VARIANTS(silu, (const float *x, float *y, int64_t n), (x, y, n))

static void silu_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    (void)args, (void)row, (void)from;
    silu(x, y, n);
}

RpStatus rp_cpu_silu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(silu, args));
    rp_for_ranges(args, ctx, silu_range);
    return RP_OK;
}
