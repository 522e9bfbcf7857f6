/* Chooses a token's experts:  scores = w c + bias, c = column(x);  probs = softmax(scores), sigmoid(scores) or the
 * scores;  ids = top_k(probs + choice_bias);  weights = route(probs, ids).  y = ids[k] i32, then weights[k] f32,
 * then, with quantize, c as q8_act and zeros: gate_up then copies a column instead of computing it in each block.
 * With open, sigmoid(open c) and zeros stand before the column, for a shared expert.
 * geometry  GEMV over the experts' rows, blocks of 8 warps (gemv.cuh), one more block for open c; the last-arriving
 *           block does the rest: all threads compute probs and ids, one warp the weights. Quantised weights, which
 *           files hardly have, take two launches: linear.cu computes the scores, and one block does the rest
 * traffic   the weights once; the column once per block, from L2; the scores are written and read once
 * numerics  the bits of the separate ops: mul_mat.cu, soft_max.cu, sigmoid.cu, top_k.cu, route.cu */
#include "base/kernels.h"
#include "kernels/device/act.cuh"
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"
#include "kernels/device/route.cuh"
#include "kernels/device/soft_max.cuh"
#include "kernels/device/top_k.cuh"

static_assert((int)RP_GEMV_THREADS == (int)RP_SOFT_MAX_THREADS, "one block computes the softmax");

namespace {

/* Shared memory of the choice: probs[n] f32, values[n] f32, weights[n] f32, ids[n] i32, taken[n] u8: 17 bytes per
 * expert. 48 KiB, less 2 KiB for static arrays, are available without opting in to more. */
enum { EXPERT_BYTES = 17, MAX_EXPERTS = (48 * 1024 - 2048) / EXPERT_BYTES };

struct RouterArgs {
    RpTensorView   w;
    ColumnSource   column;
    const float   *bias, *choice_bias;
    int32_t       *y;
    float         *scores; /* in scratch memory */
    unsigned      *counter;
    int            words; /* of y behind ids, weights and open */
    void          *open;  /* one row as those of w, or NULL */
    int            open_split;
    RpRouterParams p;
    ColumnGrid     grid;
};

/* The column, which the last block also stores as q8_act. Only the quantisation is more work: each block has the factor
 * of the norm already. */
struct RouterColumn : FusedColumn {
    int32_t *quantized; /* NULL: not stored */
    int      words;     /* from there to the end of the result */

    __device__ RouterColumn(const RouterArgs &p)
        : FusedColumn(p.column),
          quantized(p.p.quantize != 0 ? p.y + (p.open != nullptr ? 4 : 2) * p.p.top_k.k : nullptr), words(p.words) {}

    __device__ void open() {
        FusedColumn::open();
        if (quantized == nullptr || blockIdx.x != gridDim.x - 1) return;
        const int n = (int)c.n, end = n / RP_ACT_BLOCK * (RP_Q8_ACT_BYTES / 4);
        stage(0, n, (char *)quantized); /* a slice of the whole column has the layout of q8_act */
        for (int i = end + (int)threadIdx.x; i < words; i += RP_GEMV_THREADS) quantized[i] = 0;
    }
};

/* probs in shared memory. A thread reads and writes the same elements throughout, so no barrier is needed between. */
__device__ void probabilities(const RouterArgs &p, float *probs) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const int n       = (int)p.w.ne[1];
    float     maximum = -INFINITY;
    for (int i = (int)threadIdx.x; i < n; i += RP_GEMV_THREADS) {
        float v = __ldcg(p.scores + i);
        if (p.p.kind == RP_ROUTER_SOFT_MAX) v = fmaf(p.p.soft_max_scale, v, 0.0f);
        if (p.p.kind == RP_ROUTER_SIGMOID) v = Sigmoid()(v);
        probs[i] = v;
        maximum  = v > maximum || v != v ? v : maximum;
    }
    if (p.p.kind == RP_ROUTER_SOFT_MAX) rp_soft_max(probs, 0, n, maximum, -INFINITY, scratch);
}

/* Rows 2 and 3 of the result. */
__device__ void store_open(const RouterArgs &p) {
    const int k = p.p.top_k.k;
    for (int j = (int)threadIdx.x; j < 2 * k && p.open != nullptr; j += RP_WARP)
        p.y[2 * k + j] = j == 0 ? __float_as_int(Sigmoid()(__ldcg(p.scores + p.w.ne[1]))) : 0;
}

/* The last-arriving block chooses. The choice is by probs + choice_bias, the weights are probs without it. */
__device__ void choose(const RouterArgs &p) {
    RP_SHARED_DYNAMIC(float, probs);
    const int      n = (int)p.w.ne[1], k = p.p.top_k.k, tid = (int)threadIdx.x;
    float         *values = probs + n, *weights = values + n;
    int32_t       *ids   = (int32_t *)(weights + n);
    unsigned char *taken = (unsigned char *)(ids + n);
    if (!rp_arrives_last(p.counter, gridDim.x)) return;
    /* The shared memory that held the staged column is free now: every thread has passed the barriers above. */
    probabilities(p, probs);
    for (int i = tid; i < n; i += RP_GEMV_THREADS) {
        values[i] = probs[i] + (p.choice_bias != nullptr ? p.choice_bias[i] : 0.0f);
        taken[i]  = 0;
    }
    if (n <= RP_GEMV_THREADS)
        rp_top_k_by_rank(values, taken, (unsigned *)weights, n, p.p.top_k, ids);
    else {
        __syncthreads();
        if (tid < RP_WARP) rp_top_k(values, taken, n, p.p.top_k, ids);
    }
    if (tid >= RP_WARP) return; /* one warp is left; no barriers of the block from here on */
    store_open(p);
    rp_route(probs, n, ids, k, p.p.route, weights);
    __syncwarp();
    for (int j = tid; j < k; j += RP_WARP) {
        p.y[j]     = ids[j];
        p.y[k + j] = __float_as_int(weights[j]);
    }
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1)) router_kernel(RouterArgs p) {
    rp_gemv_open(p.grid.early);
    const bool   opens = p.open != nullptr && blockIdx.x == gridDim.x - 1;
    RpTensorView w     = p.w;
    ColumnGrid   grid  = p.grid;
    if (opens) w.data = p.open, w.ne[1] = 1, grid.split = p.open_split, grid.turns = 1, grid.rest = 0;
    const GemvWork work = rp_column_work(grid, w, opens ? 0 : (int)blockIdx.x);
    Form::product(work, Form::matrix(w, work), RouterColumn(p),
                  BiasedSums{opens ? p.scores + p.w.ne[1] : p.scores, opens ? nullptr : p.bias, work.rows});
    choose(p);
}

/* One block, after the scores. */
__global__ void __launch_bounds__(RP_GEMV_THREADS) choice_kernel(RouterArgs p) {
    rp_begin();
    if (p.p.quantize != 0) RouterColumn(p).open();
    choose(p);
}

LaunchShape shape_of(const RouterArgs &p, unsigned blocks) {
    return {dim3(blocks), dim3(RP_GEMV_THREADS), (unsigned)p.w.ne[1] * EXPERT_BYTES};
}

RpStatus quantised_router(const RouterArgs &p, const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t ne[RP_MAX_DIMS] = {p.w.ne[1], 1, 1, 1};
    RpOpParams    params          = {};
    params.linear.column = p.p.column, params.linear.scale = 1.0f;
    RpOpArgs scores = {};
    scores.dst      = rp_view_contiguous(RP_F32, ne, p.scores);
    scores.linear.w = args->router.w, scores.linear.x = args->router.x;
    scores.linear.norm = args->router.norm, scores.linear.bias = args->router.bias;
    scores.params = &params;
    RP_TRY(rp_cuda_linear(&scores, ctx));
    return RP_LAUNCH("router", ctx, shape_of(p, 1), choice_kernel, p);
}

} // namespace

extern "C" size_t rp_cuda_router_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return rp_scratch_size(args->router.w.ne[1] + 1);
}

extern "C" RpStatus rp_cuda_router(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(router, args));
    RP_TRY(rp_check_scratch("router", ctx, rp_cuda_router_scratch(args, ctx)));
    RouterArgs p = {};
    p.w          = args->router.w;
    if (p.w.ne[1] > MAX_EXPERTS)
        return rp_fail(RP_E_UNSUPPORTED, "router: %lld experts: must be at most %d, which fit the shared memory",
                       (long long)p.w.ne[1], MAX_EXPERTS);
    p.p                = args->params->router;
    p.column           = rp_column_source(args->router.x, args->router.norm, p.p.column);
    p.bias             = (const float *)args->router.bias.data;
    p.choice_bias      = (const float *)args->router.select_bias.data;
    p.y                = (int32_t *)args->dst.data;
    p.open             = args->router.open.data;
    p.words            = (int)(rp_view_elems(&args->dst) - (p.open != nullptr ? 4 : 2) * args->dst.ne[0]);
    p.scores           = rp_scratch_floats(ctx);
    p.counter          = (unsigned *)ctx->scratch;
    const RpDtype type = p.w.dtype;
    if (rp_dtype_is_quant(type)) return quantised_router(p, args, ctx);
    const int split = rp_gemv_split(p.w.ne[1], p.w.ne[0] / rp_gemv_frag_elems(type));
    p.open_split    = rp_gemv_split(1, p.w.ne[0] / rp_gemv_frag_elems(type)); /* as for a matrix of one row */
    const bool early =
        (ctx->constant & 1) != 0 && (p.open == nullptr || (ctx->constant >> RP_SOURCE(router, open) & 1));
    return rp_for_float_form(type, [&](auto form) {
        p.grid = rp_column_grid(p.w.ne[1], RP_GEMV_ROWS, split, decltype(form)::min_blocks(1), 1, early, ctx);
        const LaunchShape shape = shape_of(p, (unsigned)p.grid.blocks + (p.open != nullptr ? 1 : 0));
        return RP_LAUNCH_FORM("router", ctx, shape, form, router_kernel<decltype(form)>, p);
    });
}
