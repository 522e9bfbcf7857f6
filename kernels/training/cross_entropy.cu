/* y[t] = log(sum_i exp(x[i,t] - top)) - (x[target,t] - top), 0 where the target is -1
 * log_probs[i,t] = x[i,t] - top - log(sum_i exp(x[i,t] - top))
 * geometry  one block of 512 threads per row; a sweep for the sum, another one for log_probs
 * traffic   x once, with log_probs twice (the second time from L2 if it is still there), log_probs once: 4*n to 12*n
 *           bytes per row
 * numerics  f32, the device's expf and logf; the sum per thread, then a butterfly per warp, then the warps.
 *           A loss near 0 has an absolute error of about 1e-7
 * Any other target outside of the row has the loss NaN: a kernel cannot return an error. */
#include "kernels/device/log_sum.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = RP_LOG_SUM_THREADS };

__device__ float loss_of(const float *x, int64_t n, int32_t target, float top, float log_of) {
    if (target == -1) return 0.0f;
    return target < 0 || target >= n ? NAN : log_of - (x[target] - top);
}

__global__ void __launch_bounds__(THREADS)
    cross_entropy_kernel(RpTensorView x, RpTensorView targets, RpTensorView log_probs, RpTensorView y) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t r = blockIdx.x, n = x.ne[0];
    const float  *in     = (const float *)rp_row(x, r);
    const LogSum  s      = rp_log_sum(in, n, scratch);
    const float   log_of = logf(s.sum);
    if (threadIdx.x == 0) ((float *)y.data)[r] = loss_of(in, n, ((const int32_t *)targets.data)[r], s.top, log_of);
    if (log_probs.data == nullptr) return;
    float *out = (float *)rp_row(log_probs, r);
    for (int64_t i = threadIdx.x; i < n; i += THREADS) out[i] = in[i] - s.top - log_of;
}

} // namespace

extern "C" RpStatus rp_cuda_cross_entropy(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(cross_entropy, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->cross_entropy.x)), dim3(THREADS), 0};
    return RP_LAUNCH("cross_entropy", ctx, shape, cross_entropy_kernel, args->cross_entropy.x,
                     args->cross_entropy.targets, args->cross_entropy.log_probs, args->dst);
}
