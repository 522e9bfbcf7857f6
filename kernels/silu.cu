/* y = x / (1 + exp(-x))
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  f32; the device's expf */
#include "kernels/device/act.cuh"
#include "kernels/device/map.cuh"

extern "C" RpStatus rp_cuda_silu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(silu, args));
    return rp_map("silu", args, ctx, Silu());
}
