/* y = factor * (sum_norm(post_norm(act(scale * (w c + bias))) + residual) + sum_residual), c = column(x): a product of
 * one token with prologue and epilogue.
 *
 * Without a post-norm there is one phase: each worker computes its rows from prologue to factor. A post-norm needs
 * the whole row, so there are two:
 *
 *     phase 0   shared[i] = act(scale * (w c + bias))[i]      each worker its rows
 *     phase 1   row = post_norm(shared) + residual            each worker the whole row; with a norm of the sum then
 *               row = sum_norm(row)
 *               y[i] = factor[i] * (row[i] + sum_residual[i]) each worker its rows
 *
 *     local: in phase 0 the column (rp_column_bytes), in phase 1 the normalised row f32 [m] */
#include "fallback/fused/fused.h"
#include "fallback/products/repack.h"

#include <string.h>

CpuNeeds rp_needs_linear(const RpOpArgs *args) {
    const bool   post = args->params->linear.post_norm != 0;
    const size_t row  = rp_align_floats(args->linear.w.ne[1]);
    return (CpuNeeds){.phases = post ? 2 : 1,
                      .shared = post ? row : 0,
                      .local  = rp_column_bytes(args->linear.x.ne[0]) + (post ? row : 0)};
}

/* In place, n elements. */
static RpStatus activate(RpLinearAct act, float *y, int64_t n) {
    const RpOpParams gelu = {.gelu = {.kind = act == RP_LINEAR_ACT_GELU_TANH ? RP_GELU_TANH : RP_GELU_ERF}};
    const RpOpArgs   args = {.dst = rp_floats(y, n, 1), .src = {rp_floats(y, n, 1)}, .params = &gelu};
    switch (act) {
    case RP_LINEAR_ACT_NONE:
        return RP_OK;
    case RP_LINEAR_ACT_SILU:
        return rp_run_alone(rp_cpu_silu, &args);
    case RP_LINEAR_ACT_GELU_TANH:
    case RP_LINEAR_ACT_GELU_ERF:
        return rp_run_alone(rp_cpu_gelu, &args);
    case RP_LINEAR_ACT_RELU_SQR:
        return rp_run_alone(rp_cpu_relu_sqr, &args);
    }
    return RP_OK;
}

/* Rows [first, first + n) to y, up to the activation. */
static RpStatus products(const RpOpArgs *args, RpKernelCtx *ctx, int64_t first, int64_t n, float *y) {
    const RpLinearParams *p = &args->params->linear;
    RpTensorView          x;
    RP_TRY(rp_column(&args->linear.x, &args->linear.norm, &p->column, ctx->local, &x));
    RP_TRY(rp_mul_mat_rows(&args->linear.w, first, n, &x, y));
    rp_add_range(y, &args->linear.bias, first, n);
    rp_scale_range(y, p->scale, n);
    return n > 0 ? activate(p->act, y, n) : RP_OK;
}

/* Every worker computes the norms of the whole row for itself and keeps its part. */
static RpStatus norms(const RpOpArgs *args, RpKernelCtx *ctx, int64_t first, int64_t n, float *y) {
    const RpLinearParams *p   = &args->params->linear;
    const int64_t         m   = args->dst.ne[0];
    float                *row = (float *)ctx->local;
    RP_TRY(rp_norm_row(ctx->shared, m, &args->linear.post_norm, p->post_eps, row));
    if (p->sum_norm != 0) {
        rp_add_range(row, &args->linear.residual, 0, m);
        RP_TRY(rp_norm_row(row, m, &args->linear.sum_norm, p->sum_eps, row));
    }
    memcpy(y, row + first, (size_t)n * sizeof *y);
    return RP_OK;
}

/* y[i] *= factor[first + i], or *= factor[0] if there is one factor only; does nothing without a factor. */
static void multiply_range(float *y, const RpTensorView *factor, int64_t first, int64_t n) {
    const float *from = (const float *)factor->data;
    for (int64_t i = 0; i < n && factor->ne[0] > 0; i++) y[i] *= from[factor->ne[0] == 1 ? 0 : first + i];
}

RpStatus rp_cpu_linear(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(linear, args));
    const RpLinearParams *p = &args->params->linear;
    const RpTensorView   *w = &args->linear.w;
    const int64_t         m = args->dst.ne[0], first = rp_whole_rows(w, m * ctx->ith / ctx->nth),
                  n = rp_whole_rows(w, m * (ctx->ith + 1) / ctx->nth) - first;
    const bool post = p->post_norm != 0;
    float     *y    = (float *)args->dst.data + first;
    if (post && ctx->phase == 0) return products(args, ctx, first, n, (float *)ctx->shared + first);
    RP_TRY(post ? norms(args, ctx, first, n, y) : products(args, ctx, first, n, y));
    if (p->sum_norm == 0) rp_add_range(y, &args->linear.residual, first, n);
    rp_add_range(y, &args->linear.sum_residual, first, n);
    multiply_range(y, &args->linear.factor, first, n);
    return RP_OK;
}
