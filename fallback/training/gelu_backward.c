/* dx = dy * y'(x), the gradient of gelu:
 *
 *     RP_GELU_ERF    y' = Phi(x) + x exp(-x^2/2) / sqrt(2 pi),  Phi(x) = (1 + erf(x / sqrt 2)) / 2
 *     RP_GELU_TANH   y = x s, s = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
 *                    y' = s + 2 x s (1 - s) u',  u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
 *
 * From |x| = 10 on, y' is 0 or 1 in f32; larger x are clamped, so that no product is 0 * infinity. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

#include "ops/rules.h"

RP_BODY float clamped(float x) { return x > 10.0f ? 10.0f : x < -10.0f ? -10.0f : x; }

RP_BODY void tanh_slope_body(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = clamped(x[i]), u = 0.79788456f * v * fmaf(0.044715f * v, v, 1.0f);
        const float s = 1.0f / (1.0f + rp_expf(-2.0f * u)), du = 0.79788456f * fmaf(0.134145f * v, v, 1.0f);
        dx[i] = dy[i] * s * fmaf(2.0f * v * du, 1.0f - s, 1.0f);
    }
}
RP_VARIANTS(tanh_slope, (const float *x, const float *dy, float *dx, int64_t n), (x, dy, dx, n))

static void erf_slope(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = clamped(x[i]);
        dx[i]         = dy[i] * (0.5f * erfcf(v * -0.70710678f) + 0.39894228f * v * rp_expf(-0.5f * v * v));
    }
}

static void gelu_range(const RpOpArgs *args, const float *dy, float *dx, int64_t row, int64_t from, int64_t n) {
    const float *x = (const float *)rp_view_row(&args->gelu_backward.x, row) + from;
    if (args->params->gelu_backward.kind == RP_GELU_TANH)
        tanh_slope(x, dy, dx, n);
    else
        erf_slope(x, dy, dx, n);
}

RpStatus rp_cpu_gelu_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gelu_backward, args));
    rp_for_ranges(args, ctx, gelu_range);
    return RP_OK;
}
