/* rows.h - the rows of a packed or strided tensor, dealt out to workers. */
#ifndef FALLBACK_ROWS_H
#define FALLBACK_ROWS_H

#include "reprise/check.h"

static inline int64_t rp_first_row(const TensorView *v, const KernelCtx *ctx) {
    return rp_view_rows(v) * ctx->ith / ctx->nth;
}

static inline int64_t rp_end_row(const TensorView *v, const KernelCtx *ctx) {
    return rp_view_rows(v) * (ctx->ith + 1) / ctx->nth;
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
