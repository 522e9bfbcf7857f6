/* y[e] = number of ids that are e / (k * tokens): the share of all choices that fell on expert e. Ids that are no expert, such
 * as -1 for padding, count for none. Each worker counts for a range of experts. */
#include "fallback/rows.h"

#include "base/check_loss.h"

RpStatus rp_cpu_expert_load(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *ids = &args->expert_load.ids;
    RP_TRY(rp_check_expert_load(args));
    const int32_t *id    = ids->data;
    float         *y     = args->dst.data;
    const int64_t  first = args->dst.ne[0] * ctx->ith / ctx->nth, n = rp_view_elems(ids);
    const int64_t  end = args->dst.ne[0] * (ctx->ith + 1) / ctx->nth;
    for (int64_t e = first; e < end; e++) y[e] = 0.0f;
    for (int64_t i = 0; i < n; i++)
        if (id[i] >= first && id[i] < end) y[id[i]] += 1.0f; /* exact up to 2^24 */
    for (int64_t e = first; e < end; e++) y[e] /= (float)n;
    return RP_OK;
}
