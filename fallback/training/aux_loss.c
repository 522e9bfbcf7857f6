/* y = experts * sum_e load[e] * P[e], P[e] = mean_t probs[e,t]: the load-balancing loss of Switch Transformers (Fedus,
 * Zoph and Shazeer 2021, arXiv:2101.03961, equations 4 to 6, without the factor alpha), after GShard (Lepikhin et al.
 * 2020, arXiv:2006.16668). It is 1 if probabilities and choices are spread evenly, and larger if both prefer the same
 * experts.
 *
 *     y = experts / tokens * sum_t sum_e load[e] * probs[e,t]
 *
 * One number: worker 0 computes it, in double, in the order of the memory. */
#include "fallback/rows.h"

#include "ops/rules.h"

RpStatus rp_cpu_aux_loss(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *probs = &args->aux_loss.probs;
    RP_TRY(RP_CHECK(aux_loss, args));
    if (ctx->ith != 0) return RP_OK;
    const float  *load = args->aux_loss.load.data;
    const int64_t n = probs->ne[0], tokens = rp_view_rows(probs);
    double        sum = 0.0;
    for (int64_t t = 0; t < tokens; t++) {
        const float *p = rp_view_row(probs, t);
        for (int64_t e = 0; e < n; e++) sum += (double)load[e] * (double)p[e];
    }
    *(float *)args->dst.data = (float)(sum * (double)n / (double)tokens);
    return RP_OK;
}
