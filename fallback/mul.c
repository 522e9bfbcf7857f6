/* y = a * b; each dimension of b divides a's and repeats. */
#include "fallback/repeat.h"

RP_REPEAT_SPAN(mul_span, a *b)

RpStatus rp_cpu_mul(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_repeat("mul", args));
    rp_for_spans(args, ctx, mul_span);
    return RP_OK;
}
