/* y = wa c, then wb c, wc c and wd c behind it, c = column(x): products of one token with one prologue.
 *
 * The rows of all weights are numbered one after the other, and each worker takes a share of them. A worker computes
 * the column at most twice, quantised for quantised weights and as it is for float weights.
 *
 *     local: both columns (rp_column_bytes each) */
#include "ops/fused/projections.h"
#include "fallback/fused/fused.h"
#include "fallback/products/repack.h"

CpuNeeds rp_needs_projections(const RpOpArgs *args) {
    return (CpuNeeds){.phases = 1, .local = 2 * rp_column_bytes(args->projections.x.ne[0])};
}

RpStatus rp_cpu_projections(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(projections, args));
    const RpColumnParams *c   = &args->params->projections.column;
    const int64_t         all = args->dst.ne[0], from = all * ctx->ith / ctx->nth, to = all * (ctx->ith + 1) / ctx->nth;
    const size_t          bytes = rp_column_bytes(args->projections.x.ne[0]);
    RpTensorView          x[2]; /* the column as it is, and quantised */
    bool                  known[2] = {false, false};
    int64_t               start    = 0;
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        const RpTensorView *w = rp_projection(args, i);
        if (w == NULL) continue;
        const RpColumnParams column = rp_projection_column(c, w);
        const int            which  = column.round != 0;
        const int64_t        first  = rp_whole_rows(w, rp_clamped(from - start, 0, w->ne[1])),
                      end           = rp_whole_rows(w, rp_clamped(to - start, 0, w->ne[1]));
        if (first < end && !known[which])
            RP_TRY(rp_column(&args->projections.x, &args->projections.norm, &column,
                             (char *)ctx->local + (size_t)which * bytes, &x[which]));
        if (first < end) {
            known[which] = true;
            RP_TRY(rp_mul_mat_rows(w, first, end - first, &x[which], (float *)args->dst.data + start + first));
        }
        start += w->ne[1];
    }
    return RP_OK;
}
