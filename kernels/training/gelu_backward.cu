/* dx = dy * y'(x), y = gelu(x); formulas in fallback/training/gelu_backward.c
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   dy, x and dx once: 12*elements bytes
 * numerics  f32; the device's erfcf and expf. x is clamped to +-10, where y' is 0 or 1 */
#include "kernels/device/map.cuh"

#include "ops/rules.h"

namespace {

__device__ float clamped(float x) { return x > 10.0f ? 10.0f : x < -10.0f ? -10.0f : x; }

struct TanhSlope {
    __device__ float operator()(float dy, float x) const {
        const float v = clamped(x), u = 0.79788456f * v * fmaf(0.044715f * v, v, 1.0f);
        const float s = 1.0f / (1.0f + expf(-2.0f * u)), du = 0.79788456f * fmaf(0.134145f * v, v, 1.0f);
        return dy * s * fmaf(2.0f * v * du, 1.0f - s, 1.0f);
    }
};

struct ErfSlope {
    __device__ float operator()(float dy, float x) const {
        const float v = clamped(x);
        return dy * (0.5f * erfcf(v * -0.70710678f) + 0.39894228f * v * expf(-0.5f * v * v));
    }
};

} // namespace

extern "C" RpStatus rp_cuda_gelu_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gelu_backward, args));
    if (args->params->gelu_backward.kind == RP_GELU_TANH) return rp_map2("gelu_backward", args, ctx, TanhSlope());
    return rp_map2("gelu_backward", args, ctx, ErfSlope());
}
