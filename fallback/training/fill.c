/* y = value */
#include "fallback/rows.h"

#include "ops/rules.h"

RpStatus rp_cpu_fill(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(fill, args));
    const int64_t n     = rp_view_elems(&args->dst);
    const float   value = args->params->fill.value;
    float        *y     = args->dst.data;
    for (int64_t i = n * ctx->ith / ctx->nth; i < n * (ctx->ith + 1) / ctx->nth; i++) y[i] = value;
    return RP_OK;
}
