/* y[:,t] = w[:,ids[t]], widened to f32. */
#include "fallback/quants.h"

RpStatus rp_cpu_get_rows(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *w = &args->src[0], *ids = &args->src[1], *y = &args->dst;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT || ids->dtype != RP_I32 || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "get_rows: table %s, ids %s, result %s: no kernel for this",
                       rp_dtype_name(w->dtype), rp_dtype_name(ids->dtype), rp_dtype_name(y->dtype));
    if (y->ne[0] != w->ne[0] || y->ne[1] != ids->ne[0])
        return rp_fail(RP_E_SHAPE, "get_rows: table [%lld,%lld] and %lld ids for a result [%lld,%lld]",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)ids->ne[0], (long long)y->ne[0],
                       (long long)y->ne[1]);
    for (int64_t t = ctx->ith; t < ids->ne[0]; t += ctx->nth) {
        const int32_t id = ((const int32_t *)ids->data)[t];
        if (id < 0 || id >= w->ne[1])
            return rp_fail(RP_E_ARG, "get_rows: id %d at %lld, the table has %lld rows", id, (long long)t,
                           (long long)w->ne[1]);
        rp_widen_row(w->dtype, (const char *)w->data + (size_t)id * w->nb[1], w->ne[0], rp_view_row(y, t));
    }
    return RP_OK;
}
