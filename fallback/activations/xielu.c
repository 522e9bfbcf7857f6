/* y = positive * x^2 + beta * x above 0, else negative * (exp(min(x, eps)) - 1 - x) + beta * x, element by element.
 *
 * Near 0 the difference exp(x) - 1 - x cancels. There it is the beginning of its series,
 * x^2/2! + x^3/3! + ... + x^9/9!, whose relative error at -0.5 is below 1e-9. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

RP_BODY float rest_of_series(float x) {
    float sum = 1.0f / 362880.0f;
    sum       = fmaf(sum, x, 1.0f / 40320.0f);
    sum       = fmaf(sum, x, 1.0f / 5040.0f);
    sum       = fmaf(sum, x, 1.0f / 720.0f);
    sum       = fmaf(sum, x, 1.0f / 120.0f);
    sum       = fmaf(sum, x, 1.0f / 24.0f);
    sum       = fmaf(sum, x, 1.0f / 6.0f);
    sum       = fmaf(sum, x, 0.5f);
    return sum * x * x;
}

/* at_eps = exp(eps) - 1 */
RP_BODY void xielu_body(const float *x, float *y, int64_t n, const RpXieluParams *p, float at_eps) {
    for (int64_t i = 0; i < n; i++) {
        const float near = x[i] < p->eps ? rest_of_series(x[i]) : at_eps - x[i];
        const float rest = x[i] < -0.5f && x[i] < p->eps ? rp_expf(x[i]) - 1.0f - x[i] : near;
        const float bent = x[i] > 0.0f ? p->positive * x[i] * x[i] : p->negative * rest;
        y[i]             = fmaf(p->beta, x[i], bent);
    }
}
RP_VARIANTS(xielu, (const float *x, float *y, int64_t n, const RpXieluParams *p, float at_eps), (x, y, n, p, at_eps))

static void xielu_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    const RpXieluParams *p = &args->params->xielu;
    (void)row, (void)from;
    xielu(x, y, n, p, (float)expm1((double)p->eps));
}

RpStatus rp_cpu_xielu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(xielu, args));
    rp_for_ranges(args, ctx, xielu_range);
    return RP_OK;
}
