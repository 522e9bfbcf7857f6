/* y = x converted and packed; or, with a destination, d[:,pos[t]] = x[:,t], rows with pos outside of d left out.
 * geometry  one thread an element, blocks of 256
 * traffic   x and y once */
#include "kernels/device.cuh"

enum { THREADS = 256 };

/* The row of the result that row r of x goes to, or -1. */
__device__ static int64_t row_of(const TensorView &x, const TensorView &pos, const TensorView &y, bool stores,
                                 int64_t r) {
    if (!stores) return r;
    int64_t row = r % x.ne[1];
    if (pos.data != nullptr) row = ((const int32_t *)pos.data)[row];
    if (row < 0 || row >= y.ne[1]) return -1;
    return r / x.ne[1] * y.ne[1] + row;
}

__device__ static void put(RpDtype type, char *row, int64_t i, float v) {
    if (type == RP_F32)
        ((float *)row)[i] = v;
    else if (type == RP_F16)
        ((uint16_t *)row)[i] = __half_as_ushort(__float2half_rn(v));
    else {
        const unsigned bits = __float_as_uint(v);
        ((uint16_t *)row)[i] =
            (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40
                                                          : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

__global__ void __launch_bounds__(THREADS)
    copy_kernel(TensorView x, TensorView pos, TensorView y, bool stores) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = x.ne[0];
    if (i >= n * x.ne[1] * x.ne[2] * x.ne[3]) return;
    const int64_t r = i / n, to = row_of(x, pos, y, stores, r);
    if (to < 0) return;
    const char *element = rp_row(x, r) + (size_t)(i % n) * x.nb[0];
    put(y.dtype, rp_row(y, to), i % n, rp_float_at(x.dtype, element, 0));
}

/* A warp a block of 32: scale max|x| / 127 as f16, quants round(x / scale), halves away from zero; a NaN
 * scale where x has a NaN or an infinity. */
__global__ void __launch_bounds__(THREADS)
    q8_0_kernel(TensorView x, TensorView pos, TensorView y, bool stores) {
    const int64_t blocks = x.ne[0] / RP_WARP;
    const int64_t item   = (int64_t)blockIdx.x * (THREADS / RP_WARP) + threadIdx.x / RP_WARP;
    if (item >= blocks * x.ne[1] * x.ne[2] * x.ne[3]) return; /* whole warps return together */
    const int     lane = (int)threadIdx.x % RP_WARP;
    const int64_t b = item % blocks, to = row_of(x, pos, y, stores, item / blocks);
    if (to < 0) return;
    const char *element = rp_row(x, item / blocks) + (size_t)(b * RP_WARP + lane) * x.nb[0];
    const float v       = rp_float_at(x.dtype, element, 0);
    const bool  bad     = __any_sync(RP_ALL_LANES, !(fabsf(v) < INFINITY)) != 0;
    const float d       = rp_warp_max(bad ? 0.0f : fabsf(v)) / 127.0f;
    const float inverse = d >= RP_SMALLEST_SCALE ? 1.0f / d : 0.0f;
    uint8_t    *block   = (uint8_t *)rp_row(y, to) + b * 34;
    block[2 + lane]     = (uint8_t)(int8_t)(bad ? 0.0f : roundf(v * inverse));
    if (lane == 0) *(uint16_t *)block = bad ? 0x7e00 : __half_as_ushort(__float2half_rn(d));
}

extern "C" RpStatus rp_cuda_copy(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_copy(args));
    if (args->dst.dtype == RP_Q8_0) {
        const int64_t     warps  = rp_view_elems(&args->src[0]) / RP_WARP;
        const LaunchShape packed = {dim3(rp_blocks(warps, THREADS / RP_WARP)), dim3(THREADS), 0};
        return RP_LAUNCH("copy", ctx, packed, q8_0_kernel, args->src[0], args->src[2], args->dst,
                         rp_has_src(args, 1));
    }
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->src[0]), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("copy", ctx, shape, copy_kernel, args->src[0], args->src[2], args->dst,
                     rp_has_src(args, 1));
}
