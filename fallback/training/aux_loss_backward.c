/* dprobs[e,t] = experts * load[e] / tokens * dy, the same for every token. The load counts choices; it has no
 * gradient. */
#include "fallback/rows.h"

#include "ops/rules.h"

RpStatus rp_cpu_aux_loss_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *y = &args->dst;
    RP_TRY(RP_CHECK(aux_loss_backward, args));
    const float *load   = args->aux_loss_backward.load.data;
    const float  factor = (float)y->ne[0] / (float)rp_view_rows(y) * *(const float *)args->aux_loss_backward.dy.data;
    for (int64_t t = rp_first_row(y, ctx); t < rp_end_row(y, ctx); t++) {
        float *row = rp_view_row(y, t);
        for (int64_t e = 0; e < y->ne[0]; e++) row[e] = factor * load[e];
    }
    return RP_OK;
}
