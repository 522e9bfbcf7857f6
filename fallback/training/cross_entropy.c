/* y[t]           = log(sum_i exp(x[i,t])) - x[target,t]                  0 where the target is -1
 *                = log(sum_i exp(x[i,t] - top)) - (x[target,t] - top)    top: the largest x[i,t], against overflow
 * log_probs[i,t] = x[i,t] - log(sum_i exp(x[i,t]))
 *
 * Everything but exp is computed in double and rounded once. Rows are divided among the workers. A NaN or +inf in a row
 * makes the loss and all log_probs of the row NaN. A target whose logit is -inf has the loss +inf. */
#include "fallback/rows.h"
#include "fallback/training/log_sum.h"

#include "ops/rules.h"

/* y = x - shift */
RP_BODY void shifted_body(const float *x, double shift, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] - shift);
}
RP_VARIANTS(shifted, (const float *x, double shift, int64_t n, float *y), (x, shift, n, y))

RpStatus rp_cpu_cross_entropy(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->cross_entropy.x, *targets = &args->cross_entropy.targets;
    const RpTensorView *log_probs = &args->cross_entropy.log_probs;
    const int64_t       n         = x->ne[0];
    RP_TRY(RP_CHECK(cross_entropy, args));
    RP_TRY(rp_check_targets("cross_entropy", targets, n));
    for (int64_t r = rp_first_row(x, ctx); r < rp_end_row(x, ctx); r++) {
        const float  *in     = rp_view_row(x, r);
        const int32_t target = ((const int32_t *)targets->data)[r];
        const LogSum  s      = target >= 0 || rp_is_present(log_probs) ? rp_log_sum(in, n) : (LogSum){0.0f, 1.0};
        const double  log_of = log(s.sum), top = (double)s.top;
        ((float *)args->dst.data)[r] = target < 0 ? 0.0f : (float)(log_of - ((double)in[target] - top));
        if (rp_is_present(log_probs)) shifted(in, top + log_of, n, rp_view_row(log_probs, r));
    }
    return RP_OK;
}
