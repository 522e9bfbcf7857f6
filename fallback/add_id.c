/* y[:,j,t] = x[:,j,t] + b[:,ids[j,t]]: the bias of the selected expert; y = x if the id is no expert. */
#include "fallback/experts.h"
#include "fallback/rows.h"

static void add_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    const RpTensorView *b  = &args->add_id.b;
    const int64_t       k  = args->add_id.x.ne[1];
    const int32_t       id = rp_expert(&args->add_id.ids, row % k, row / k, b->ne[1]); /* row = j + k * t */
    if (id < 0) {
        for (int64_t i = 0; i < n; i++) y[i] = x[i];
        return;
    }
    const float *z = (const float *)(const void *)((const char *)b->data + (size_t)id * b->nb[1]) + from;
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + z[i];
}

RpStatus rp_cpu_add_id(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(add_id, args));
    rp_for_ranges(args, ctx, add_range);
    return RP_OK;
}
