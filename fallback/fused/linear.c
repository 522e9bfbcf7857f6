/* y = post_norm(scale * (w c + bias)) + residual, c = column(x): a product of one token with prologue and epilogue.
 *
 * Without a post-norm there is one phase: each worker computes its rows from prologue to residual. A post-norm needs
 * the whole row, so there are two:
 *
 *     phase 0   shared[i] = scale * (w c + bias)[i]       each worker its rows
 *     phase 1   y[i] = rms_norm(shared)[i] + residual[i]  each worker its rows, after the norm of the whole row
 *
 *     local: in phase 0 the column (rp_column_bytes), in phase 1 the normalised row f32 [m] */
#include "fallback/fused/fused.h"
#include "fallback/products/repack.h"

CpuNeeds rp_needs_linear(const RpOpArgs *args) {
    const bool   post = args->params->linear.post_norm != 0;
    const size_t row  = rp_align_floats(args->linear.w.ne[1]);
    return (CpuNeeds){.phases = post ? 2 : 1,
                      .shared = post ? row : 0,
                      .local  = rp_column_bytes(args->linear.x.ne[0]) + (post ? row : 0)};
}

/* Rows [first, first + n) to y, up to the scale. */
static RpStatus products(const RpOpArgs *args, RpKernelCtx *ctx, int64_t first, int64_t n, float *y) {
    const RpLinearParams *p = &args->params->linear;
    RpTensorView          x;
    RP_TRY(rp_column(&args->linear.x, &args->linear.norm, &p->column, ctx->local, &x));
    RP_TRY(rp_mul_mat_rows(&args->linear.w, first, n, &x, y));
    rp_add_range(y, &args->linear.bias, first, n);
    rp_scale_range(y, p->scale, n);
    return RP_OK;
}

/* Every worker normalises the whole row for itself and keeps its part. */
static RpStatus post_norm(const RpOpArgs *args, RpKernelCtx *ctx, int64_t first, int64_t n) {
    const int64_t    m      = args->dst.ne[0];
    float           *normed = (float *)ctx->local, *y = (float *)args->dst.data;
    const RpOpParams p    = {.rms_norm = {.eps = args->params->linear.post_eps}};
    const RpOpArgs   norm = {
          .dst    = rp_floats(normed, m, 1),
          .src    = {rp_floats(ctx->shared, m, 1), args->linear.post_norm},
          .params = &p,
    };
    RP_TRY(rp_run_alone(rp_cpu_rms_norm, &norm));
    for (int64_t i = first; i < first + n; i++) y[i] = normed[i];
    return RP_OK;
}

RpStatus rp_cpu_linear(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(linear, args));
    const RpTensorView *w = &args->linear.w;
    const int64_t       m = args->dst.ne[0], first = rp_whole_rows(w, m * ctx->ith / ctx->nth),
                  n = rp_whole_rows(w, m * (ctx->ith + 1) / ctx->nth) - first;
    const bool post = args->params->linear.post_norm != 0;
    float     *y    = (float *)args->dst.data;
    if (post && ctx->phase == 0) return products(args, ctx, first, n, (float *)ctx->shared + first);
    RP_TRY(post ? post_norm(args, ctx, first, n) : products(args, ctx, first, n, y + first));
    rp_add_range(y + first, &args->linear.residual, first, n);
    return RP_OK;
}
