/* y[:,t] = sum_j w[j,t] * x[:,j,t], in the order of j. */
#include "fallback/float.h"
#include "fallback/rows.h"

RP_BODY void add_scaled_body(const float *x, float w, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *x, float w, float *y, int64_t n), (x, w, y, n))

RpStatus rp_cpu_combine(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *x = &args->src[0], *w = &args->src[1], *y = &args->dst;
    RP_TRY(rp_check_combine(args));
    /* items of 16 elements, so that one token keeps every worker busy */
    const int64_t units = (x->ne[0] + 15) / 16, total = units * x->ne[2];
    for (int64_t u = total * ctx->ith / ctx->nth; u < total * (ctx->ith + 1) / ctx->nth; u++) {
        const int64_t t = u / units, from = u % units * 16;
        const int64_t n      = x->ne[0] - from < 16 ? x->ne[0] - from : 16;
        const float  *weight = (const float *)rp_view_row(w, t);
        float        *out    = (float *)rp_view_row(y, t) + from;
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t j = 0; j < x->ne[1]; j++)
            add_scaled((const float *)rp_view_row(x, j + t * x->ne[1]) + from, weight[j], out, n);
    }
    return RP_OK;
}
