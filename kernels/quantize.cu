/* y = x quantised to q8_act: scale = max|x| / 127 over 32 elements, q = round(x / scale) to nearest even
 * (quantize.cuh has the layout).
 * geometry  one warp per block of 32 elements, one lane per element, eight warps per thread block
 * traffic   x once, y once: 5.375 bytes per element
 * numerics  a block with a NaN or an infinity gets a NaN scale */
#include "kernels/device/quantize.cuh"

namespace {

enum { THREADS = 256, BLOCK = RP_ACT_BLOCK };

__global__ void __launch_bounds__(THREADS) quantize_kernel(RpTensorView x, RpTensorView y) {
    rp_begin();
    const int64_t n = x.ne[0], blocks = n / BLOCK;
    const int64_t item = (int64_t)blockIdx.x * (THREADS / RP_WARP) + threadIdx.x / RP_WARP;
    if (item >= blocks * x.ne[1] * x.ne[2] * x.ne[3]) return; /* whole warps return together */
    const int64_t r = item / blocks, b = item % blocks;
    const float   v = ((const float *)rp_row(x, r))[BLOCK * b + (int)threadIdx.x % RP_WARP];
    rp_quantize_block(v, rp_row(y, r), n, b);
}

} // namespace

extern "C" RpStatus rp_cuda_quantize(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_quantize(args));
    const int64_t     warps = rp_view_elems(&args->quantize.x) / BLOCK;
    const LaunchShape shape = {dim3(rp_blocks(warps, THREADS / RP_WARP)), dim3(THREADS), 0};
    return RP_LAUNCH("quantize", ctx, shape, quantize_kernel, args->quantize.x, args->dst);
}
