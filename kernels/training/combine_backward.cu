/* dx[:,j,t] = weights[j,t] * dy[:,t];  dweights[j,t] = sum_i dy[i,t] * x[i,j,t]
 * geometry  one block of 256 threads per (j,t)
 * traffic   x and dx once, dy k times (from L2): 8*n*k + 4*n bytes of DRAM per token
 * numerics  f32; the sum per thread, then a butterfly per warp, then the warps */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    combine_backward_kernel(const float *dy, const float *x, const float *weights, float *dweights, float *dx,
                            int64_t n, int64_t k) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t r   = blockIdx.x;
    const float   w   = weights[r];
    float         sum = 0.0f;
    dy += r / k * n, x += r * n, dx += r * n;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        sum   = fmaf(dy[i], x[i], sum);
        dx[i] = w * dy[i];
    }
    sum = rp_block_sum(sum, scratch);
    if (threadIdx.x == 0) dweights[r] = sum;
}

} // namespace

extern "C" RpStatus rp_cuda_combine_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(combine_backward, args));
    const RpTensorView *x     = &args->combine_backward.x;
    const LaunchShape   shape = {dim3((unsigned)rp_view_rows(x)), dim3(THREADS), 0};
    return RP_LAUNCH("combine_backward", ctx, shape, combine_backward_kernel,
                     (const float *)args->combine_backward.dy.data, (const float *)x->data,
                     (const float *)args->combine_backward.weights.data, (float *)args->combine_backward.dweights.data,
                     (float *)args->dst.data, x->ne[0], x->ne[1]);
}
