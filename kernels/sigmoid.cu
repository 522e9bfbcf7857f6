/* y = 1 / (1 + exp(-x))
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  f32; the device's expf */
#include "kernels/act.cuh"
#include "kernels/map.cuh"

extern "C" RpStatus rp_cuda_sigmoid(const OpArgs *args, KernelCtx *ctx) {
    return rp_map("sigmoid", args, ctx, Sigmoid());
}
