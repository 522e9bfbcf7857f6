/* y = x as q8_act: over 32 elements scale = max|x| / 127, quants = round(x / scale) to nearest even; a block with
 * a NaN or an infinity gets a NaN scale.
 * geometry  one warp a block of 32 elements, eight to a thread block
 * traffic   x once, 1.375 bytes an element written */
#include "kernels/device.cuh"

enum { THREADS = 256, BLOCK = 32 };

__global__ void __launch_bounds__(THREADS) quantize_kernel(TensorView x, TensorView y) {
    const int64_t n = x.ne[0], blocks = n / BLOCK;
    const int64_t item = (int64_t)blockIdx.x * (THREADS / RP_WARP) + threadIdx.x / RP_WARP;
    if (item >= blocks * x.ne[1] * x.ne[2] * x.ne[3]) return; /* whole warps return together */
    const int     lane = (int)threadIdx.x % RP_WARP;
    const int64_t r = item / blocks, b = item % blocks;
    const float   v     = ((const float *)rp_row(x, r))[BLOCK * b + lane];
    const bool    bad   = __any_sync(RP_ALL_LANES, !(fabsf(v) < INFINITY)) != 0;
    const float   top   = rp_warp_max(bad ? 0.0f : fabsf(v));
    const float   scale = bad ? NAN : top / 127.0f;
    const float   id    = !bad && scale > 0.0f ? 127.0f / top : 0.0f;
    const int     q     = bad ? 0 : __float2int_rn(v * id);
    int           sum   = q;
    for (int lanes = RP_WARP / 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(RP_ALL_LANES, sum, lanes);
    char  *row                        = rp_row(y, r);
    float *scales                     = (float *)(row + n);
    ((int8_t *)row)[BLOCK * b + lane] = (int8_t)q;
    if (lane == 0) scales[b] = scale;
    if (lane % 16 == 0) scales[blocks + 2 * b + lane / 16] = scale * (float)sum;
}

extern "C" RpStatus rp_cuda_quantize(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_quantize(args));
    const int64_t     warps = rp_view_elems(&args->src[0]) / BLOCK;
    const LaunchShape shape = {dim3(rp_blocks(warps, THREADS / RP_WARP)), dim3(THREADS), 0};
    return RP_LAUNCH("quantize", ctx, shape, quantize_kernel, args->src[0], args->dst);
}
