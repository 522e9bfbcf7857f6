/* dx[i,t] = (exp(x[i,t] - top) / sum - (i = target)) * dy[t], sum = sum_i exp(x[i,t] - top); 0 where the target is -1
 * geometry  one block of 512 threads per row; a sweep for the sum, another one for the gradient
 * traffic   x twice (the second time from L2 if it is still there), dx once: 8*n to 12*n bytes per row
 * numerics  f32, the device's expf; sums as in log_sum.cuh
 * x and dx may be the same memory (I6): all of the row is read before rp_log_sum returns, and the second sweep reads
 * element i before it writes it. Any other target outside of the row makes its gradient NaN: a kernel cannot return an
 * error. */
#include "kernels/device/log_sum.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = RP_LOG_SUM_THREADS };

__global__ void __launch_bounds__(THREADS)
    cross_entropy_backward_kernel(RpTensorView x, RpTensorView targets, RpTensorView dy, RpTensorView dx) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t r = blockIdx.x, n = x.ne[0];
    const int32_t target = ((const int32_t *)targets.data)[r];
    const float  *in     = (const float *)rp_row(x, r);
    float        *out    = (float *)rp_row(dx, r);
    if (target < 0 || target >= n) { /* the same for all threads */
        for (int64_t i = threadIdx.x; i < n; i += THREADS) out[i] = target == -1 ? 0.0f : NAN;
        return;
    }
    const LogSum s       = rp_log_sum(in, n, scratch);
    const float  inverse = 1.0f / s.sum, factor = ((const float *)dy.data)[r];
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float p = expf(in[i] - s.top) * inverse;
        out[i]        = (i == target ? p - 1.0f : p) * factor;
    }
}

} // namespace

extern "C" RpStatus rp_cuda_cross_entropy_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(cross_entropy_backward, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("cross_entropy_backward", ctx, shape, cross_entropy_backward_kernel,
                     args->cross_entropy_backward.x, args->cross_entropy_backward.targets,
                     args->cross_entropy_backward.dy, args->dst);
}
