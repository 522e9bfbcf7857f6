/* The gradient of y = g s (u + 1), s = 1 / (1 + exp(-alpha g)), g = min(gate, limit), u = clamp(up, -limit, limit):
 *
 *     dgate = dy (u + 1) (s + alpha g s (1 - s)), 0 where gate > limit        s' = alpha s (1 - s)
 *     dup   = dy g s, 0 where |up| > limit
 *
 * g s comes before the other factors: where exp overflows, it is 0 and not infinity times 0. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

#include "ops/rules.h"

typedef struct Elements {
    const float *gate, *up;
    float       *dup;
} Elements;

RP_BODY void slopes_body(Elements of, const float *dy, float *dgate, int64_t n, float alpha, float limit) {
    for (int64_t i = 0; i < n; i++) {
        const float gate = of.gate[i], up = of.up[i], d = dy[i];
        const float g = gate > limit ? limit : gate;
        const float u = up > limit ? limit : (up < -limit ? -limit : up);
        const float s = 1.0f / (1.0f + rp_expf(-alpha * g)), gs = g * s;
        dgate[i]  = gate > limit ? 0.0f : d * (u + 1.0f) * fmaf(alpha * gs, 1.0f - s, s);
        of.dup[i] = up > limit || up < -limit ? 0.0f : d * gs;
    }
}
RP_VARIANTS(slopes, (Elements of, const float *dy, float *dgate, int64_t n, float alpha, float limit),
            (of, dy, dgate, n, alpha, limit))

static void swiglu_range(const RpOpArgs *args, const float *dy, float *dgate, int64_t row, int64_t from, int64_t n) {
    const RpSwigluOaiParams *p  = &args->params->swiglu_oai_backward;
    const Elements           of = {.gate = (const float *)rp_view_row(&args->swiglu_oai_backward.gate, row) + from,
                                   .up   = (const float *)rp_view_row(&args->swiglu_oai_backward.up, row) + from,
                                   .dup  = (float *)rp_view_row(&args->swiglu_oai_backward.dup, row) + from};
    slopes(of, dy, dgate, n, p->alpha, p->limit);
}

RpStatus rp_cpu_swiglu_oai_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(swiglu_oai_backward, args));
    rp_for_ranges(args, ctx, swiglu_range);
    return RP_OK;
}
