/* sums[0] = sqrt(sum of x^2) of all tensors since the one with `first`. The state `sums` is described in ops.h.
 *
 *     phase 0   sum of squares of each part of x (rp_grad_norm_parts), in double, by 16 lanes
 *     phase 1   worker 0 adds the parts in order, then what the state holds of the tensors before
 *
 * Sums beyond the range of f32 are infinite, as on the GPU, and the norm is too. NaN stays NaN. */
#include "fallback/fused/fused.h"
#include "fallback/squares.h"

#include "ops/rules.h"
#include "ops/training/grad_norm.h"

#include <math.h>

enum { NORM, HIGH, LOW, PARTS = 4 };

CpuNeeds rp_needs_grad_norm(const RpOpArgs *args) {
    (void)args;
    return (CpuNeeds){.phases = 2};
}

/* v as the sum of two floats. */
static void put_pair(double v, float *high, float *low) {
    *high = (float)v;
    *low  = isfinite(*high) ? (float)(v - (double)*high) : 0.0f;
}

static void sum_part(const float *x, int64_t n, int64_t part, float *sums) {
    const int64_t groups = (n + 3) / 4, parts = rp_grad_norm_parts(n);
    const int64_t from = groups * part / parts * 4, end = groups * (part + 1) / parts * 4;
    const double  sum = rp_square_sum(x + from, (end < n ? end : n) - from);
    put_pair(sum, &sums[PARTS + 2 * part], &sums[PARTS + 2 * part + 1]);
}

static void sum_parts(int64_t parts, bool first, float *sums) {
    double sum = 0.0;
    for (int64_t p = 0; p < parts; p++) sum += (double)sums[PARTS + 2 * p] + (double)sums[PARTS + 2 * p + 1];
    if (!first) sum += (double)sums[HIGH] + (double)sums[LOW];
    put_pair(sum, &sums[HIGH], &sums[LOW]);
    sums[NORM]    = isfinite(sums[HIGH]) ? (float)sqrt((double)sums[HIGH] + (double)sums[LOW]) : sums[HIGH];
    sums[LOW + 1] = 0.0f;
}

RpStatus rp_cpu_grad_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->grad_norm.x;
    RP_TRY(RP_CHECK(grad_norm, args));
    const int64_t n = rp_view_elems(x), parts = rp_grad_norm_parts(n);
    float        *sums = args->dst.data;
    if (ctx->phase == 1 && ctx->ith == 0) sum_parts(parts, args->params->grad_norm.first != 0, sums);
    if (ctx->phase == 1) return RP_OK;
    for (int64_t p = parts * ctx->ith / ctx->nth; p < parts * (ctx->ith + 1) / ctx->nth; p++)
        sum_part(x->data, n, p, sums);
    return RP_OK;
}
