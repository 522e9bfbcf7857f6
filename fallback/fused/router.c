/* The selected experts of a token and their weights: the matrix product, softmax or sigmoid, top_k and route in one op.
 *
 *     phase 0   shared[i] = (w c + bias)[i], c = column(x)     each worker its rows, and its blocks of a quantised c
 *               with open: worker 0 also sigmoid(open c)
 *     phase 1   worker 0: f(shared) in place, ids = top_k, weights = route
 *
 *     y: ids i32 [k] | weights f32 [k] | with open: f32, zeros [2 k - 1]
 *        | with quantize: c q8_act, zeros up to a multiple of k words */
#include "fallback/fused/fused.h"

#include <string.h>

CpuNeeds rp_needs_router(const RpOpArgs *args) {
    return (CpuNeeds){
        .phases = 2, .shared = rp_align_floats(args->router.w.ne[1]), .local = rp_column_bytes(args->router.x.ne[0])};
}

/* The worker's share of the blocks of the quantised column c, behind ids and weights. */
static void quantize_column(const RpOpArgs *args, const RpKernelCtx *ctx, const RpTensorView *c) {
    const int64_t n = c->ne[0], blocks = n / 32, first = blocks * ctx->ith / ctx->nth,
                  end    = blocks * (ctx->ith + 1) / ctx->nth;
    const int64_t before = rp_is_present(&args->router.open) ? 4 : 2;
    char         *row    = (char *)rp_view_row(&args->dst, before);
    rp_quantize_range((const float *)c->data + 32 * first, 32 * (end - first), row, n, 32 * first);
    const size_t used = (size_t)before * args->dst.nb[1] + rp_row_bytes(RP_Q8_ACT, n);
    if (ctx->ith == 0) memset((char *)args->dst.data + used, 0, rp_view_extent_bytes(&args->dst) - used);
}

/* Rows 2 and 3 of the result: the gate of the shared expert, then zeros. */
static RpStatus open_shared(const RpOpArgs *args, const RpTensorView *c) {
    float             *row  = (float *)(void *)rp_view_row(&args->dst, 2);
    const RpTensorView gate = rp_floats(row, 1, 1);
    memset(row, 0, 2 * args->dst.nb[1]);
    RP_TRY(rp_mul_mat_rows(&args->router.open, 0, 1, c, row));
    return rp_run_alone(rp_cpu_sigmoid, &(RpOpArgs){.dst = gate, .src = {gate}});
}

/* The router's logits. */
static RpStatus logits(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t m = args->router.w.ne[1], first = m * ctx->ith / ctx->nth, n = m * (ctx->ith + 1) / ctx->nth - first;
    float        *y = (float *)ctx->shared + first;
    RpTensorView  x;
    const bool    quantizes = args->params->router.quantize != 0;
    const bool    opens     = ctx->ith == 0 && rp_is_present(&args->router.open);
    if (n == 0 && !quantizes && !opens) return RP_OK;
    RP_TRY(rp_column(&args->router.x, &args->router.norm, &args->params->router.column, ctx->local, &x));
    if (quantizes) quantize_column(args, ctx, &x);
    if (opens) RP_TRY(open_shared(args, &x));
    if (n == 0) return RP_OK;
    RP_TRY(rp_mul_mat_rows(&args->router.w, first, n, &x, y));
    rp_add_range(y, &args->router.bias, first, n);
    return RP_OK;
}

/* From logits to ids and weights, by the kernels of the single ops. */
static RpStatus select_experts(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpRouterParams *p     = &args->params->router;
    const RpTensorView    probs = rp_floats(ctx->shared, args->router.w.ne[1], 1);
    const int64_t         k     = p->top_k.k;
    int32_t              *out   = args->dst.data;
    const RpTensorView    ids   = rp_view_contiguous(RP_I32, (int64_t[RP_MAX_DIMS]){k, 1, 1, 1}, out);
    const RpOpParams      top_k = {.top_k = p->top_k}, route = {.route = p->route};
    const RpOpParams      soft = {.soft_max = {.scale = p->soft_max_scale}};
    if (p->kind == RP_ROUTER_SOFT_MAX)
        RP_TRY(rp_run_alone(rp_cpu_soft_max, &(RpOpArgs){.dst = probs, .src = {probs}, .params = &soft}));
    if (p->kind == RP_ROUTER_SIGMOID) RP_TRY(rp_run_alone(rp_cpu_sigmoid, &(RpOpArgs){.dst = probs, .src = {probs}}));
    RP_TRY(rp_run_alone(rp_cpu_top_k, &(RpOpArgs){
                                          .dst    = ids,
                                          .src    = {probs, args->router.select_bias},
                                          .params = &top_k,
    }));
    const RpTensorView weights = rp_floats((float *)(void *)(out + k), k, 1);
    return rp_run_alone(rp_cpu_route, &(RpOpArgs){
                                          .dst    = weights,
                                          .src    = {probs, ids},
                                          .params = &route,
    });
}

RpStatus rp_cpu_router(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(router, args));
    if (ctx->phase == 0) return logits(args, ctx);
    return ctx->ith == 0 ? select_experts(args, ctx) : RP_OK;
}
