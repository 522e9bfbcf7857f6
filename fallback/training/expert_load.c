/* y[e] = sum of weights[t] over the j,t with ids[j,t] = e / (k * tokens): the share of all choices that fell on expert
 * e. Without weights each counts 1. A weight of 0 leaves padding out; ids that are no expert are ignored. Each worker
 * counts for a range of experts, in the order of the memory. */
#include "fallback/rows.h"

#include "ops/rules.h"

RpStatus rp_cpu_expert_load(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *ids = &args->expert_load.ids;
    RP_TRY(RP_CHECK(expert_load, args));
    const int32_t *id      = ids->data;
    const float   *weights = rp_is_present(&args->expert_load.weights) ? args->expert_load.weights.data : NULL;
    float         *y       = args->dst.data;
    const int64_t  first = args->dst.ne[0] * ctx->ith / ctx->nth, k = ids->ne[0], tokens = rp_view_rows(ids);
    const int64_t  end = args->dst.ne[0] * (ctx->ith + 1) / ctx->nth;
    for (int64_t e = first; e < end; e++) y[e] = 0.0f;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = t * k; j < (t + 1) * k; j++)
            if (id[j] >= first && id[j] < end) y[id[j]] += weights != NULL ? weights[t] : 1.0f; /* exact up to 2^24 */
    for (int64_t e = first; e < end; e++) y[e] /= (float)(k * tokens);
    return RP_OK;
}
