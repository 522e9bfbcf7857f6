/* Tells the host that all earlier kernels have ended: *done = n_done.
 *
 * It waits as every kernel of a chain with PDL does, so the store comes after the end of the kernel before. The next
 * kernel may begin early all the same.
 * geometry  one thread
 * traffic   4 bytes written to host memory
 * numerics  none */
#include "kernels/device/device.cuh"

#include "base/loop.h"

namespace {

__global__ void mark_kernel(volatile int32_t *done, int32_t n_done) {
    rp_begin();
    *done = n_done;
}

} // namespace

extern "C" RpStatus rp_cuda_mark(volatile int32_t *done, int32_t n_done, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3(1), dim3(1), 0};
    return RP_LAUNCH("mark", ctx, shape, mark_kernel, done, n_done);
}

extern "C" const void *rp_cuda_mark_kernel(void) { return RP_KERNEL(mark_kernel); }
