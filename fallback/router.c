/* The selected experts of a token and their weights: the matrix product, softmax or sigmoid, top_k and route in one op.
 *
 *     phase 0   shared[i] = (w c + bias)[i], c = column(x)     each worker its rows
 *     phase 1   worker 0: f(shared) in place, ids = top_k, weights = route
 *
 *     y: ids i32 [k] | weights f32 [k] */
#include "fallback/fused.h"

CpuNeeds rp_needs_router(const OpArgs *args) {
    return (CpuNeeds){.phases = 2,
                      .shared = rp_align_floats(args->src[0].ne[1]),
                      .local    = rp_column_bytes(args->src[1].ne[0])};
}

/* The router's logits. */
static RpStatus logits(const OpArgs *args, KernelCtx *ctx) {
    const int64_t m = args->src[0].ne[1], first = m * ctx->ith / ctx->nth,
                  n = m * (ctx->ith + 1) / ctx->nth - first;
    float     *y    = (float *)ctx->shared + first;
    TensorView x;
    if (n == 0) return RP_OK;
    RP_TRY(rp_column(&args->src[1], &args->src[2], &args->params->router.column, ctx->local, &x));
    RP_TRY(rp_mul_mat_rows(&args->src[0], first, n, &x, y));
    rp_add_range(y, &args->src[3], first, n);
    return RP_OK;
}

/* From logits to ids and weights, by the kernels of the single ops. */
static RpStatus select_experts(const OpArgs *args, KernelCtx *ctx) {
    const RouterParams *p     = &args->params->router;
    const TensorView    probs = rp_floats(ctx->shared, args->src[0].ne[1], 1);
    const int64_t       k     = p->top_k.k;
    int32_t            *out   = args->dst.data;
    const TensorView    ids   = rp_view_contiguous(RP_I32, (int64_t[RP_MAX_DIMS]){k, 1, 1, 1}, out);
    const OpParams      top_k = {.top_k = p->top_k}, route = {.route = p->route};
    const OpParams      soft = {.soft_max = {.scale = p->soft_max_scale}};
    if (p->kind == RP_ROUTER_SOFT_MAX)
        RP_TRY(rp_run_alone(rp_cpu_soft_max, &(OpArgs){.dst = probs, .src = {probs}, .params = &soft}));
    if (p->kind == RP_ROUTER_SIGMOID)
        RP_TRY(rp_run_alone(rp_cpu_sigmoid, &(OpArgs){.dst = probs, .src = {probs}}));
    RP_TRY(rp_run_alone(rp_cpu_top_k, &(OpArgs){
                                     .dst = ids, .src = {probs, args->src[4]},
                                          .params = &top_k
    }));
    const TensorView weights = rp_floats((float *)(void *)(out + k), k, 1);
    return rp_run_alone(rp_cpu_route, &(OpArgs){
                                     .dst = weights, .src = {probs, ids},
                                          .params = &route
    });
}

RpStatus rp_cpu_router(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_router(args));
    if (ctx->phase == 0) return logits(args, ctx);
    return ctx->ith == 0 ? select_experts(args, ctx) : RP_OK;
}
