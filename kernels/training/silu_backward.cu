/* dx = dy * s * (1 + x * (1 - s)), s = 1 / (1 + exp(-x))
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   dy, x and dx once: 12*elements bytes
 * numerics  f32; the device's expf */
#include "kernels/device/map.cuh"

#include "ops/rules.h"

namespace {
struct SiluSlope {
    __device__ float operator()(float dy, float x) const {
        const float s = 1.0f / (1.0f + expf(-x));
        return dy * s * fmaf(x, 1.0f - s, 1.0f);
    }
};
} // namespace

extern "C" RpStatus rp_cuda_silu_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(silu_backward, args));
    return rp_map2("silu_backward", args, ctx, SiluSlope());
}
