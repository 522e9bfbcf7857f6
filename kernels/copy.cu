/* y = x, converted to the type of y and made contiguous. With a destination d (a KV cache): d[:,pos[t]] = x[:,t];
 * a position outside of d is not stored, which is how padding tokens (pos -1) leave the cache alone (I4).
 * geometry  one thread per element; into q8_0 one warp per block of 32 elements; blocks of 256 threads
 * traffic   x and y once
 * numerics  f16 and bf16 to nearest even; q8_0 as copy.cuh describes */
#include "kernels/device/copy.cuh"

namespace {

enum { THREADS = 256 };

/* The row of the result that row r of x goes to, or -1. Rows are counted over dimensions 1 to 3. */
__device__ int64_t row_of(const RpTensorView &x, const RpTensorView &pos, const RpTensorView &y, bool stores,
                          int64_t r) {
    if (!stores) return r;
    int64_t row = r % x.ne[1];
    if (pos.data != nullptr) row = ((const int32_t *)pos.data)[row];
    if (row < 0 || row >= y.ne[1]) return -1;
    return r / x.ne[1] * y.ne[1] + row;
}

__global__ void __launch_bounds__(THREADS) copy_kernel(RpTensorView x, RpTensorView pos, RpTensorView y, bool stores) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = x.ne[0];
    if (i >= n * x.ne[1] * x.ne[2] * x.ne[3]) return;
    const int64_t r = i / n, to = row_of(x, pos, y, stores, r);
    if (to < 0) return;
    const char *element = rp_row(x, r) + (size_t)(i % n) * x.nb[0];
    rp_put_float(y.dtype, rp_row(y, to), i % n, rp_float_at(x.dtype, element, 0));
}

/* One warp per q8_0 block, one lane per element. */
__global__ void __launch_bounds__(THREADS) q8_0_kernel(RpTensorView x, RpTensorView pos, RpTensorView y, bool stores) {
    rp_begin();
    const int64_t blocks = x.ne[0] / RP_WARP;
    const int64_t item   = (int64_t)blockIdx.x * (THREADS / RP_WARP) + threadIdx.x / RP_WARP;
    if (item >= blocks * x.ne[1] * x.ne[2] * x.ne[3]) return; /* whole warps return together */
    const int     lane = (int)threadIdx.x % RP_WARP;
    const int64_t b = item % blocks, to = row_of(x, pos, y, stores, item / blocks);
    if (to < 0) return;
    const char *element = rp_row(x, item / blocks) + (size_t)(b * RP_WARP + lane) * x.nb[0];
    const float v       = rp_float_at(x.dtype, element, 0);
    rp_put_q8_0(v, (uint8_t *)rp_row(y, to) + b * RP_Q8_0_BYTES);
}

} // namespace

extern "C" RpStatus rp_cuda_copy(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(copy, args));
    if (args->dst.dtype == RP_Q8_0) {
        const int64_t     warps    = rp_view_elems(&args->copy.x) / RP_WARP;
        const LaunchShape q8_shape = {dim3(rp_blocks(warps, THREADS / RP_WARP)), dim3(THREADS), 0};
        return RP_LAUNCH("copy", ctx, q8_shape, q8_0_kernel, args->copy.x, args->copy.pos, args->dst,
                         rp_is_present(&args->copy.to));
    }
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->copy.x), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("copy", ctx, shape, copy_kernel, args->copy.x, args->copy.pos, args->dst,
                     rp_is_present(&args->copy.to));
}
