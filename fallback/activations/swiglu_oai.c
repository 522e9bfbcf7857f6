/* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit): the activation of gpt-oss,
 * with alpha 1.702 and limit 7 there. */
#include "fallback/repeat.h"
#include "fallback/simd/float.h"

RP_BODY void swiglu_body(const float *gate, const float *up, float *y, int64_t n, float alpha, float limit) {
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i] > limit ? limit : gate[i];
        const float u = up[i] > limit ? limit : (up[i] < -limit ? -limit : up[i]);
        y[i]          = g / (1.0f + rp_expf(-alpha * g)) * (u + 1.0f);
    }
}
RP_VARIANTS(swiglu, (const float *gate, const float *up, float *y, int64_t n, float alpha, float limit),
            (gate, up, y, n, alpha, limit))

static void swiglu_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    const RpSwigluOaiParams *p = &args->params->swiglu_oai;
    swiglu(x, rp_repeat_row(args, row) + from, y, n, p->alpha, p->limit);
}

RpStatus rp_cpu_swiglu_oai(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(swiglu_oai, args));
    rp_for_ranges(args, ctx, swiglu_range);
    return RP_OK;
}
