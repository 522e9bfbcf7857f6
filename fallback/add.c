/* y = a + b, element by element; each dimension of b divides that of a and repeats (repeat.h). */
#include "fallback/repeat.h"

RP_REPEAT_RANGE(add_range, a + b)

RpStatus rp_cpu_add(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(add, args));
    rp_for_ranges(args, ctx, add_range);
    return RP_OK;
}
