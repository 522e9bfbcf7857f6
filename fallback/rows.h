/* rows.h - divides the rows of a tensor, or ranges of their elements, among the workers. The division depends on
 * shapes only (I5), and each element has one worker, so results do not depend on the number of workers (I8). */
#ifndef FALLBACK_ROWS_H
#define FALLBACK_ROWS_H

#include "ops/rules.h"

/* This worker's rows are [rp_first_row, rp_end_row). */
static inline int64_t rp_first_row(const RpTensorView *v, const RpKernelCtx *ctx) {
    return rp_view_rows(v) * ctx->ith / ctx->nth;
}

static inline int64_t rp_end_row(const RpTensorView *v, const RpKernelCtx *ctx) {
    return rp_view_rows(v) * (ctx->ith + 1) / ctx->nth;
}

/* Computes elements [from, from + n) of a row; x and y point to element `from`. */
typedef void RangeFunction(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n);

/* Calls f for this worker's share of all elements, in ranges that do not cross rows. The share is counted in 16
 * elements, not in rows, so that one long row keeps every worker busy. */
static inline void rp_for_ranges(const RpOpArgs *args, const RpKernelCtx *ctx, RangeFunction *f) {
    const RpTensorView *x = &args->unary.x, *y = &args->dst;
    const int64_t       n = y->ne[0], blocks = (n + 15) / 16, total = blocks * rp_view_rows(y);
    const int64_t       last = total * (ctx->ith + 1) / ctx->nth;
    for (int64_t u = total * ctx->ith / ctx->nth; u < last;) {
        const int64_t row = u / blocks, from = u % blocks * 16;
        const int64_t count = last - u < blocks - u % blocks ? last - u : blocks - u % blocks;
        const int64_t end   = from + 16 * count < n ? from + 16 * count : n;
        f(args, (const float *)rp_view_row(x, row) + from, (float *)rp_view_row(y, row) + from, row, from, end - from);
        u += count;
    }
}

#endif
