/* y = x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016, arXiv:1606.08415):
 *
 *     RP_GELU_ERF    0.5 x (1 + erf(x / sqrt 2))
 *     RP_GELU_TANH   0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2/pi) (x + 0.044715 x^3)
 *
 * The right side of the second needs rp_expf only, which compilers vectorise. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

RP_BODY void gelu_tanh_body(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float u = 0.79788456f * x[i] * fmaf(0.044715f * x[i], x[i], 1.0f);
        y[i]          = x[i] / (1.0f + rp_expf(-2.0f * u));
    }
}
RP_VARIANTS(gelu_tanh, (const float *x, float *y, int64_t n), (x, y, n))

static void gelu_erf(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

static void gelu_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    (void)row, (void)from;
    if (args->params->gelu.kind == RP_GELU_TANH)
        gelu_tanh(x, y, n);
    else
        gelu_erf(x, y, n);
}

RpStatus rp_cpu_gelu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gelu, args));
    rp_for_ranges(args, ctx, gelu_range);
    return RP_OK;
}
