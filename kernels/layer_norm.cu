/* y[r,:] = (x[r,:] - mean(x[r,:])) * 1/sqrt(var(x[r,:]) + eps) * w[:] + b[:], w and b optional
 * geometry  one block of 256 threads per row
 * traffic   x three times (twice from L2), w, b and y once: 4*(2*rows*n + 2*n) bytes of DRAM
 * numerics  sums in f32 by threads, warps and block; the deviations are summed after the mean is known
 * x and y may be the same memory (I6): a thread reads its elements again before it writes them. */
#include "kernels/device/device.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS, 4)
    layer_norm_kernel(RpTensorView x, RpTensorView w, RpTensorView b, RpTensorView y, float eps) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const float *in = (const float *)rp_row(x, blockIdx.x), *weight = (const float *)w.data,
                *bias = (const float *)b.data;
    float      *out   = (float *)rp_row(y, blockIdx.x);
    const int   n     = (int)x.ne[0];
    const float count = (float)n;
    float       sum = 0.0f, squares = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) sum += in[i];
    const float mean = rp_block_sum(sum, scratch) / count;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) squares = fmaf(in[i] - mean, in[i] - mean, squares);
    const float scale = 1.0f / sqrtf(rp_block_sum(squares, scratch) / count + eps);
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        out[i] = fmaf((in[i] - mean) * scale, weight != nullptr ? weight[i] : 1.0f, bias != nullptr ? bias[i] : 0.0f);
}

} // namespace

extern "C" RpStatus rp_cuda_layer_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(layer_norm, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("layer_norm", ctx, shape, layer_norm_kernel, args->layer_norm.x, args->layer_norm.w,
                     args->layer_norm.b, args->dst, args->params->layer_norm.eps);
}
