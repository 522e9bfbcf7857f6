/* y[:,t] = sum_j w[j,t] * x[:,j,t]: the weighted sum of the chosen experts' results.
 * geometry  one thread per element of the result, blocks of 256
 * traffic   x once, y once: 4*n*(k + 1) bytes per token
 * numerics  fused multiply-adds in f32, in the order of j */
#include "kernels/device/device.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) combine_kernel(RpTensorView x, RpTensorView w, RpTensorView y) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = x.ne[0], t = i / n;
    if (t >= x.ne[2]) return;
    const float *weight = (const float *)rp_row(w, t);
    float        sum    = 0.0f;
    for (int64_t j = 0; j < x.ne[1]; j++) sum = fmaf(weight[j], ((const float *)rp_row_at(x, j, t, 0))[i % n], sum);
    ((float *)rp_row(y, t))[i % n] = sum;
}

} // namespace

extern "C" RpStatus rp_cuda_combine(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(combine, args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->dst), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("combine", ctx, shape, combine_kernel, args->combine.x, args->combine.weights, args->dst);
}
