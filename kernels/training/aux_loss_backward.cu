/* dprobs[e,t] = experts * load[e] / tokens * dy
 * geometry  one thread per element, blocks of 256
 * traffic   dprobs once: 4*experts*tokens bytes
 * numerics  f32, as on the CPU */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS)
    aux_loss_backward_kernel(RpTensorView load, RpTensorView dy, RpTensorView y) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = y.ne[0], tokens = y.ne[1] * y.ne[2] * y.ne[3];
    if (i >= n * tokens) return;
    const float factor   = (float)n / (float)tokens * *(const float *)dy.data;
    ((float *)y.data)[i] = factor * ((const float *)load.data)[i % n];
}

} // namespace

extern "C" RpStatus rp_cuda_aux_loss_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(aux_loss_backward, args));
    const LaunchShape shape = {dim3(rp_blocks(rp_view_elems(&args->dst), THREADS)), dim3(THREADS), 0};
    return RP_LAUNCH("aux_loss_backward", ctx, shape, aux_loss_backward_kernel, args->aux_loss_backward.load,
                     args->aux_loss_backward.dy, args->dst);
}
