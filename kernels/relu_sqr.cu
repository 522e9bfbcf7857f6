/* y = max(x, 0)^2
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  one product in f32 */
#include "kernels/device/act.cuh"
#include "kernels/device/map.cuh"

extern "C" RpStatus rp_cuda_relu_sqr(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(relu_sqr, args));
    return rp_map("relu_sqr", args, ctx, ReluSqr{});
}
