/* y = a + b; each dimension of b divides a's and repeats. */
#include "fallback/repeat.h"

RP_REPEAT_SPAN(add_span, a + b)

RpStatus rp_cpu_add(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_repeat("add", args));
    rp_for_spans(args, ctx, add_span);
    return RP_OK;
}
