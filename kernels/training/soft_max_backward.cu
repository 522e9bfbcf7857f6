/* dx[i] = scale * y[i] * (dy[i] - sum_j dy[j] y[j]) for each row
 * geometry  one block of 256 threads per row; a sweep for the sum, another one for the gradient
 * traffic   y and dy twice (the second time from L2 if they are still there), dx once: 12*n to 20*n bytes per row
 * numerics  f32; the sum per thread, then a butterfly per warp, then the warps
 * dx and dy may be the same memory (I6): a thread has the same elements in both sweeps. */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    soft_max_backward_kernel(RpTensorView dy, RpTensorView y, RpTensorView dx, float scale) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const float *of_y = (const float *)rp_row(y, blockIdx.x), *of_dy = (const float *)rp_row(dy, blockIdx.x);
    float       *out = (float *)rp_row(dx, blockIdx.x), sum = 0.0f;
    for (int64_t i = threadIdx.x; i < y.ne[0]; i += THREADS) sum = fmaf(of_dy[i], of_y[i], sum);
    sum = rp_block_sum(sum, scratch);
    for (int64_t i = threadIdx.x; i < y.ne[0]; i += THREADS) out[i] = scale * of_y[i] * (of_dy[i] - sum);
}

} // namespace

extern "C" RpStatus rp_cuda_soft_max_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(soft_max_backward, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("soft_max_backward", ctx, shape, soft_max_backward_kernel, args->soft_max_backward.dy,
                     args->soft_max_backward.y, args->dst, args->params->soft_max_backward.scale);
}
