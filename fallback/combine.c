/* y[:,t] = sum_j w[j,t] * x[:,j,t]: the weighted sum of a token's experts.
 *
 * Summed in the order of j with fma, whatever range of elements a worker has, so the bits are the same with any number
 * of workers (I8). */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

RP_BODY void add_scaled_body(const float *x, float w, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *x, float w, float *y, int64_t n), (x, w, y, n))

static void combine_range(const RpOpArgs *args, const float *first, float *y, int64_t row, int64_t from, int64_t n) {
    const RpTensorView *x      = &args->combine.x;
    const float        *weight = (const float *)rp_view_row(&args->combine.weights, row);
    (void)first;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t j = 0; j < x->ne[1]; j++)
        add_scaled((const float *)rp_view_row(x, j + row * x->ne[1]) + from, weight[j], y, n);
}

RpStatus rp_cpu_combine(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(combine, args));
    rp_for_ranges(args, ctx, combine_range);
    return RP_OK;
}
