/* y[r,:] = x[r,:] * 1/sqrt(mean(x[r,:]^2) + eps) * w[:], w optional
 * geometry  one block of 256 threads per row
 * traffic   x twice (the second time from L2), w and y once: 4*(2*rows*n + n) bytes of DRAM
 * numerics  the sum of squares as two floats, about 46 bits (rms_norm.cuh); the rest in f32
 * x and y may be the same memory (I6): a thread reads its elements again before it writes them. */
#include "kernels/device/rms_norm.cuh"

namespace {

enum { THREADS = RP_NORM_THREADS };

__global__ void __launch_bounds__(THREADS, 4)
    rms_norm_kernel(RpTensorView x, RpTensorView w, RpTensorView y, float eps) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const float *in = (const float *)rp_row(x, blockIdx.x), *weight = (const float *)w.data;
    float       *out   = (float *)rp_row(y, blockIdx.x);
    const float  scale = rp_rms_scale<false>(in, x.ne[0], eps, scratch);
    for (int64_t i = threadIdx.x; i < x.ne[0]; i += THREADS)
        out[i] = in[i] * scale * (weight != nullptr ? weight[i] : 1.0f);
}

} // namespace

extern "C" RpStatus rp_cuda_rms_norm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(rms_norm, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("rms_norm", ctx, shape, rms_norm_kernel, args->rms_norm.x, args->rms_norm.w, args->dst,
                     args->params->rms_norm.eps);
}
