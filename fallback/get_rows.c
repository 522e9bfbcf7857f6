/* y[:,t] = w[:,ids[t]], widened to f32. */
#include "fallback/quants.h"

RpStatus rp_cpu_get_rows(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *w = &args->src[0], *ids = &args->src[1], *y = &args->dst;
    RP_TRY(rp_check_get_rows(args));
    for (int64_t t = ctx->ith; t < ids->ne[0]; t += ctx->nth) {
        const int32_t id = ((const int32_t *)ids->data)[t];
        if (id < 0 || id >= w->ne[1])
            return rp_fail(RP_E_ARG, "get_rows: id %d at %lld, the table has %lld rows", id, (long long)t,
                           (long long)w->ne[1]);
        rp_widen_row(w->dtype, (const char *)w->data + (size_t)id * w->nb[1], w->ne[0], rp_view_row(y, t));
    }
    return RP_OK;
}
