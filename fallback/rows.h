/* rows.h - the rows of a packed or strided tensor, dealt out to workers. */
#ifndef FALLBACK_ROWS_H
#define FALLBACK_ROWS_H

#include "reprise/kernel.h"

static inline int64_t rp_first_row(const TensorView *v, const KernelCtx *ctx) {
    return rp_view_rows(v) * ctx->ith / ctx->nth;
}

static inline int64_t rp_end_row(const TensorView *v, const KernelCtx *ctx) {
    return rp_view_rows(v) * (ctx->ith + 1) / ctx->nth;
}

/* What every op from f32 to f32 of one shape checks. */
static inline RpStatus rp_check_unary(const char *op, const OpArgs *args) {
    const TensorView *x = &args->src[0], *y = &args->dst;
    if (x->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: source %s, result %s: f32 is wanted", op, rp_dtype_name(x->dtype),
                       rp_dtype_name(y->dtype));
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (x->ne[i] != y->ne[i])
            return rp_fail(
                RP_E_SHAPE, "%s: source [%lld,%lld,%lld,%lld] and result [%lld,%lld,%lld,%lld] differ", op,
                (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2], (long long)x->ne[3],
                (long long)y->ne[0], (long long)y->ne[1], (long long)y->ne[2], (long long)y->ne[3]);
    return RP_OK;
}

/* A stretch of a row's elements, so that one long row keeps every worker busy; multiples of 16 elements. */
typedef void SpanFunction(const OpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n);

static inline void rp_for_spans(const OpArgs *args, const KernelCtx *ctx, SpanFunction *f) {
    const TensorView *x = &args->src[0], *y = &args->dst;
    const int64_t     n = y->ne[0], units = (n + 15) / 16, total = units * rp_view_rows(y);
    const int64_t     last = total * (ctx->ith + 1) / ctx->nth;
    for (int64_t u = total * ctx->ith / ctx->nth; u < last;) {
        const int64_t row = u / units, from = u % units * 16;
        const int64_t count = last - u < units - u % units ? last - u : units - u % units;
        const int64_t end   = from + 16 * count < n ? from + 16 * count : n;
        f(args, (const float *)rp_view_row(x, row) + from, (float *)rp_view_row(y, row) + from, row, from,
          end - from);
        u += count;
    }
}

#endif
