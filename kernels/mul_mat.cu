/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]
 * geometry  rows: one warp an element, eight to a block, grid (rows / 8, tokens, heads). Transposed: one
 * thread an element of the result, neighbours reading neighbours traffic   the weights once a token, x from
 * L2 */
#include "kernels/gemv.cuh"

enum { THREADS = 256, WARPS = THREADS / RP_WARP };

struct MulMatArgs {
    TensorView  w, x, y, pos;
    MulMatBound bound;
};

__device__ static int64_t last_position(const MulMatArgs &p, int64_t t) {
    return ((const int32_t *)p.pos.data)[t];
}

/* Terms of the sum for token t. */
__device__ static int64_t inner_length(const MulMatArgs &p, int64_t t) {
    if (p.bound != RP_BOUND_INNER) return p.w.ne[0];
    const int64_t end = last_position(p, t) + 1;
    return end < 0 ? 0 : (end < p.w.ne[0] ? end : p.w.ne[0]);
}

__device__ static const char *row_of_head(const MulMatArgs &p, int64_t m, int64_t h, int64_t b) {
    return (const char *)p.w.data + (size_t)m * p.w.nb[1] +
           (size_t)(h / (p.x.ne[2] / p.w.ne[2])) * p.w.nb[2] +
           (size_t)(b / (p.x.ne[3] / p.w.ne[3])) * p.w.nb[3];
}

template <class Row> __global__ void __launch_bounds__(THREADS) rows_kernel(MulMatArgs p) {
    const int     lane = (int)threadIdx.x % RP_WARP;
    const int64_t m = (int64_t)blockIdx.x * WARPS + threadIdx.x / RP_WARP, t = blockIdx.y;
    const int64_t h = blockIdx.z % p.x.ne[2], b = blockIdx.z / p.x.ne[2];
    if (m >= p.w.ne[1]) return; /* whole warps return together */
    if (p.bound == RP_BOUND_ROWS && m > last_position(p, t)) return;
    const char *x   = rp_row_at(p.x, t, h, b);
    const float sum = rp_warp_sum(Row::dot(row_of_head(p, m, h, b), x, p.w.ne[0], inner_length(p, t), lane));
    if (lane == 0) ((float *)rp_row_at(p.y, t, h, b))[m] = sum;
}

__global__ void __launch_bounds__(THREADS) transposed_kernel(MulMatArgs p) {
    const int64_t m = (int64_t)blockIdx.x * THREADS + threadIdx.x, t = blockIdx.y;
    const int64_t h = blockIdx.z % p.x.ne[2], b = blockIdx.z / p.x.ne[2];
    if (m >= p.w.ne[1]) return;
    if (p.bound == RP_BOUND_ROWS && m > last_position(p, t)) return;
    const char   *column = row_of_head(p, m, h, b);
    const float  *x      = (const float *)rp_row_at(p.x, t, h, b);
    const int64_t n      = inner_length(p, t);
    float         sum    = 0.0f;
    for (int64_t k = 0; k < n; k++)
        sum = fmaf(rp_float_at(p.w.dtype, column + (size_t)k * p.w.nb[0], 0), x[k], sum);
    ((float *)rp_row_at(p.y, t, h, b))[m] = sum;
}

static LaunchShape shape_of(const MulMatArgs &p, int64_t rows_a_block) {
    return {dim3(rp_blocks(p.w.ne[1], rows_a_block), (unsigned)p.x.ne[1], (unsigned)(p.x.ne[2] * p.x.ne[3])),
            dim3(THREADS), 0};
}

template <RpDtype T> static RpStatus quant_rows(const MulMatArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat", ctx, shape_of(p, WARPS), rows_kernel<QuantRow<T>>, p);
}

template <RpDtype T> static RpStatus wide_rows(const MulMatArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat", ctx, shape_of(p, WARPS), rows_kernel<WideRow<T>>, p);
}

template <RpDtype T> static RpStatus float_rows(const MulMatArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat", ctx, shape_of(p, WARPS), rows_kernel<FloatRow<T>>, p);
}

extern "C" RpStatus rp_cuda_mul_mat(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat(args));
    const MulMatBound bound = rp_has_src(args, 2) ? args->params->mul_mat.bound : RP_BOUND_NONE;
    const MulMatArgs  p     = {args->src[0], args->src[1], args->dst, args->src[2], bound};
    const RpDtype     type  = p.w.dtype;
    if (p.x.ne[1] > 65535 || p.x.ne[2] * p.x.ne[3] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat: %lld tokens, %lld heads: at most 65535 of each",
                       (long long)p.x.ne[1], (long long)(p.x.ne[2] * p.x.ne[3]));
    if (p.w.nb[0] != (size_t)rp_dtype_info(type)->block_bytes)
        return RP_LAUNCH("mul_mat", ctx, shape_of(p, THREADS), transposed_kernel, p);
    if (type == RP_F32) return float_rows<RP_F32>(p, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(p, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(p, ctx);
    if (p.x.dtype == RP_Q8_ACT) return RP_FOR_QUANT(type, quant_rows, p, ctx);
    return RP_FOR_QUANT(type, wide_rows, p, ctx);
}
