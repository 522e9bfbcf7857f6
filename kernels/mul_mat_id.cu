/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; 0 where the id is no expert. The ids are read on the device: no
 * launch depends on them (I4). geometry  one warp an element of the result, eight to a block, grid (rows / 8,
 * ids of a token, tokens) traffic   one token: the chosen experts' weights once */
#include "kernels/gemv.cuh"

enum { THREADS = 256, WARPS = THREADS / RP_WARP };

struct MulMatIdArgs {
    TensorView w, x, ids, y;
};

template <class Row> __global__ void __launch_bounds__(THREADS) experts_kernel(MulMatIdArgs p) {
    const int     lane = (int)threadIdx.x % RP_WARP;
    const int64_t m = (int64_t)blockIdx.x * WARPS + threadIdx.x / RP_WARP, j = blockIdx.y, t = blockIdx.z;
    if (m >= p.w.ne[1]) return; /* whole warps return together */
    const int32_t id   = ((const int32_t *)p.ids.data)[t * p.ids.ne[0] + j];
    const bool    real = id >= 0 && id < p.w.ne[2];
    float         sum  = 0.0f;
    if (real) {
        const char *row = (const char *)p.w.data + (size_t)id * p.w.nb[2] + (size_t)m * p.w.nb[1];
        const char *x   = rp_row_at(p.x, p.x.ne[1] > 1 ? j : 0, t, 0);
        sum             = rp_warp_sum(Row::dot(row, x, p.w.ne[0], p.w.ne[0], lane));
    }
    if (lane == 0) ((float *)rp_row_at(p.y, j, t, 0))[m] = sum;
}

static LaunchShape shape_of(const MulMatIdArgs &p) {
    return {dim3(rp_blocks(p.w.ne[1], WARPS), (unsigned)p.ids.ne[0], (unsigned)p.ids.ne[1]), dim3(THREADS),
            0};
}

template <RpDtype T> static RpStatus quant_rows(const MulMatIdArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat_id", ctx, shape_of(p), experts_kernel<QuantRow<T>>, p);
}

template <RpDtype T> static RpStatus wide_rows(const MulMatIdArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat_id", ctx, shape_of(p), experts_kernel<WideRow<T>>, p);
}

template <RpDtype T> static RpStatus float_rows(const MulMatIdArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("mul_mat_id", ctx, shape_of(p), experts_kernel<FloatRow<T>>, p);
}

extern "C" RpStatus rp_cuda_mul_mat_id(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat_id(args));
    const MulMatIdArgs p    = {args->src[0], args->src[1], args->src[2], args->dst};
    const RpDtype      type = p.w.dtype;
    if (p.ids.ne[0] > 65535 || p.ids.ne[1] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat_id: %lld ids of %lld tokens: at most 65535 of each",
                       (long long)p.ids.ne[0], (long long)p.ids.ne[1]);
    if (type == RP_F32) return float_rows<RP_F32>(p, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(p, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(p, ctx);
    if (p.x.dtype == RP_Q8_ACT) return RP_FOR_QUANT(type, quant_rows, p, ctx);
    return RP_FOR_QUANT(type, wide_rows, p, ctx);
}
