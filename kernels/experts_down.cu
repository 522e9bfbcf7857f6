/* y = scale * sum_j weights[j] (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]]) + residual, of one token. The ids are read on the device
 * (I4); one that is no expert counts as zeros.
 * geometry  blocks of 8 warps, two rows a warp or a few warps (gemv.cuh); where rows are few, warps of a block take experts side
 *           by side, and one thread a row adds their results in the order of the choice
 * traffic   the chosen experts' weights once; their columns a block, from L2
 * numerics  sums as mul_mat_id.cu has them, and combine.cu's order: the same bits */
#include "kernels/gemv.cuh"

struct ExpertsDownArgs {
    TensorView     w, x;
    const int32_t *ids;
    const float   *weights, *bias, *residual;
    float         *y, scale;
    int            split, side;
};

/* Those of the experts that the block has at a time; the warp's is the `own`th of them. */
struct ExpertColumns {
    GemvColumns<RP_GEMV_WARPS> all;
    int                        side, own;
    __device__ int             together() const { return side; }
    __device__ int             first() const { return own; }
    __device__ void            open() {}
    __device__ void            stage(int64_t from, int len, char *to) const { all.stage(from, len, to); }
    __device__ bool            aligned() const { return all.aligned(); }
    __device__ float           at(int64_t i) const { return ((const float *)(all.x + own * all.stride))[i]; }
    template <bool ALIGNED>
    __device__ void eight(int, int64_t i, int64_t left, float (&v)[RP_FLOAT_UNIT]) const {
        rp_eight<ALIGNED>((const float *)(all.x + own * all.stride) + i, left, v);
    }
};

/* A row of results for each expert that the block has at a time. */
struct ExpertsDownPut {
    const ExpertsDownArgs &p;
    float                 *table;
    int32_t                expert;
    __device__ void        operator()(int64_t m, int, const float (&v)[RP_GEMV_ROWS]) const {
               const int64_t rows = p.w.ne[1];
               const int     slot = (int)threadIdx.x / RP_WARP / p.split * RP_GEMV_ROWS;
               for (int r = 0; r < RP_GEMV_ROWS; r++) {
                   const bool real = expert >= 0 && m + r < rows;
                   table[slot + r] =
                !real ? 0.0f : v[r] + (p.bias != nullptr ? p.bias[expert * rows + m + r] : 0.0f);
        }
    }
};

/* `product(job, expert, columns, put)` is what a type of weights does of it. */
template <class Product>
__device__ static inline void experts_down(const ExpertsDownArgs &p, const Product &product) {
    RP_SHARED(float, table, [RP_GEMV_WARPS * RP_GEMV_ROWS]);
    const int k = (int)p.x.ne[1], own = (int)threadIdx.x / RP_WARP / p.split % p.side, tid = (int)threadIdx.x;
    GemvJob   job = {p.w.ne[1], p.w.ne[0], 1, p.split};
    job.side      = p.side;
    job.block     = blockIdx.x;
    /* The row that this thread adds, where it does: pair tid / 2 of the block's. */
    const int     pairs = RP_GEMV_WARPS / (p.split * p.side);
    const int64_t row   = rp_gemv_begin(job, 0) + tid;
    const bool    adds  = tid < pairs * RP_GEMV_ROWS && row < job.rows;
    float         sum   = 0.0f;
    for (int j0 = 0; j0 < k; j0 += p.side) {
        const int     count = k - j0 < p.side ? k - j0 : p.side, j = j0 + own;
        const int32_t id = own < count ? p.ids[j] : -1, expert = id >= 0 && id < p.w.ne[2] ? id : -1;
        job.idle                    = expert < 0;
        const ExpertColumns columns = {
            {rp_row_at(p.x, j0, 0, 0), p.x.nb[1], p.x.ne[0], count},
            p.side, own < count ? own : 0
        };
        if (j0 > 0) __syncthreads(); /* the experts before have been read by all */
        product(job, expert < 0 ? 0 : expert, columns, ExpertsDownPut{p, table, expert});
        __syncthreads();
        for (int i = 0; adds && i < count; i++)
            sum = fmaf(p.weights[j0 + i],
                       table[(tid / RP_GEMV_ROWS * p.side + i) * RP_GEMV_ROWS + tid % RP_GEMV_ROWS], sum);
    }
    if (!adds) return;
    if (p.scale != 1.0f) sum = fmaf(p.scale, sum, 0.0f);
    p.y[row] = p.residual != nullptr ? __fadd_rn(sum, p.residual[row]) : sum;
}

template <RpDtype T> __device__ static OneMatrix<T> matrix_of(const ExpertsDownArgs &p, int32_t expert) {
    return {rp_planes<T>(p.w), expert * p.w.ne[1], p.w.ne[1], p.w.ne[0] / RP_UNIT};
}

template <RpDtype T>
__global__ void __launch_bounds__(RP_GEMV_THREADS, rp_gemv_blocks(T, 1)) quant_kernel(ExpertsDownArgs p) {
    rp_begin();
    experts_down(
        p, [&](const GemvJob &job, int32_t expert, const ExpertColumns &columns, const ExpertsDownPut &put) {
            rp_gemv_quant<T, 1>(job, matrix_of<T>(p, expert), columns, put);
        });
}

template <RpDtype T> __global__ void __launch_bounds__(RP_GEMV_THREADS, 2) wide_kernel(ExpertsDownArgs p) {
    rp_begin();
    experts_down(
        p, [&](const GemvJob &job, int32_t expert, const ExpertColumns &columns, const ExpertsDownPut &put) {
            rp_gemv_wide<T>(job, matrix_of<T>(p, expert), columns, put);
        });
}

template <RpDtype T> __global__ void __launch_bounds__(RP_GEMV_THREADS, 3) float_kernel(ExpertsDownArgs p) {
    rp_begin();
    experts_down(
        p, [&](const GemvJob &job, int32_t expert, const ExpertColumns &columns, const ExpertsDownPut &put) {
            const FloatMatrix w = {rp_row_at(p.w, 0, expert, 0), p.w.nb[1], p.w.ne[1]};
            rp_gemv_float<T, 1>(job, w, columns, job.idle ? 0 : job.n, put);
        });
}

static LaunchShape shape_of(const ExpertsDownArgs &p, int64_t shared) {
    return {dim3(rp_blocks(p.w.ne[1], RP_GEMV_ROWS * RP_GEMV_WARPS / (p.split * p.side))),
            dim3(RP_GEMV_THREADS), (unsigned)shared};
}

template <RpDtype T> static RpStatus quant_rows(const ExpertsDownArgs &p, KernelCtx *ctx) {
    const int64_t n = p.w.ne[0], most = RP_GEMV_STAGED / p.side;
    return RP_LAUNCH("experts_down", ctx, shape_of(p, p.side * rp_staged_bytes(n < most ? n : most)),
                     quant_kernel<T>, p);
}

template <RpDtype T> static RpStatus wide_rows(const ExpertsDownArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("experts_down", ctx, shape_of(p, 0), wide_kernel<T>, p);
}

template <RpDtype T> static RpStatus float_rows(const ExpertsDownArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("experts_down", ctx, shape_of(p, 0), float_kernel<T>, p);
}

extern "C" RpStatus rp_cuda_experts_down(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_experts_down(args));
    ExpertsDownArgs p  = {};
    p.w                = args->src[0];
    p.x                = args->src[1];
    p.ids              = (const int32_t *)args->src[2].data;
    p.weights          = (const float *)args->src[3].data;
    p.bias             = (const float *)args->src[4].data;
    p.residual         = (const float *)args->src[5].data;
    p.y                = (float *)args->dst.data;
    p.scale            = args->params->experts_down.scale;
    const RpDtype type = p.w.dtype;
    const int64_t k = p.x.ne[1], m = p.w.ne[1];
    p.split = rp_gemv_split(m * k, p.w.ne[0] / rp_gemv_unit_of(type)); /* that of mul_mat_id */
    p.side  = 1;
    while (p.side < k && p.split * p.side < RP_GEMV_WARPS && (m + 1) / 2 * p.split * p.side < RP_GEMV_BUSY)
        p.side *= 2;
    if (type == RP_F32) return float_rows<RP_F32>(p, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(p, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(p, ctx);
    if (p.x.dtype == RP_Q8_ACT) return RP_FOR_QUANT(type, quant_rows, p, ctx);
    return RP_FOR_QUANT(type, wide_rows, p, ctx);
}
