/* y[i,t,h] = exp(v[i] - top) / (exp(sinks[h] - top) + sum_i exp(v[i] - top)),  v[i] = scale * x[i,t,h] + mask[i,t],
 * top = max(sinks[h], v[0], v[1], ...), which keeps exp from overflowing.
 *
 * With positions only from <= i < end count, from = max(0, pos[t]-window+1), end = min(n, pos[t]+1):
 *
 *     i:    0 .. from-1   from .. end-1   end .. n-1
 *     y[i]: 0             softmax         not written: later positions of the KV cache
 *
 * The attention sink (gpt-oss) takes a part of the probability and has no result; without one it is -inf. If every v[i]
 * and the sink are -inf, or no i counts, the results are 0. The sum is in double, in the order of i. */
#include "fallback/quants/quants.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

static float mask_at(const RpTensorView *mask, int64_t t, int64_t i) {
    const char *row = (const char *)mask->data + (size_t)t * mask->nb[1];
    float       f;
    rp_dequantize_row(mask->dtype, row + (size_t)i * mask->nb[0], 1, &f);
    return f;
}

static void soft_max_row(const RpOpArgs *args, int64_t t, int64_t h, const float *x, float *y) {
    const RpSoftMaxParams *p    = &args->params->soft_max;
    int64_t                from = 0, end = args->dst.ne[0];
    if (rp_is_present(&args->soft_max.pos)) {
        const int64_t pos = ((const int32_t *)args->soft_max.pos.data)[t];
        end               = pos + 1 < end ? pos + 1 : end;
        if (p->window > 0 && end > p->window) from = end - p->window;
    }
    const float sink = rp_is_present(&args->soft_max.sinks) ? ((const float *)args->soft_max.sinks.data)[h] : -INFINITY;
    float       top  = sink;
    for (int64_t i = 0; i < from && i < end; i++) y[i] = 0.0f;
    for (int64_t i = from; i < end; i++) {
        y[i] = p->scale * x[i] + (rp_is_present(&args->soft_max.mask) ? mask_at(&args->soft_max.mask, t, i) : 0.0f);
        if (y[i] > top || y[i] != y[i]) top = y[i]; /* a NaN stays, as nothing is greater than it */
    }
    double sum = top == -INFINITY ? 0.0 : (double)rp_expf(sink - top);
    for (int64_t i = from; i < end; i++) {
        y[i] = top == -INFINITY ? 0.0f : rp_expf(y[i] - top);
        sum += (double)y[i];
    }
    const float inverse = sum == 0.0 ? 0.0f : (float)(1.0 / sum);
    for (int64_t i = from; i < end; i++) y[i] *= inverse;
}

RpStatus rp_cpu_soft_max(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->soft_max.x, *y = &args->dst;
    RP_TRY(RP_CHECK(soft_max, args));
    for (int64_t r = ctx->ith; r < rp_view_rows(y); r += ctx->nth)
        soft_max_row(args, r % y->ne[1], r / y->ne[1] % y->ne[2], rp_view_row(x, r), rp_view_row(y, r));
    return RP_OK;
}
