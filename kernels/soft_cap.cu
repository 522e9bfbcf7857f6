/* y = cap * tanh(scale * x / cap)
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  f32, the device's tanhf */
#include "kernels/device/map.cuh"

namespace {
struct SoftCap {
    float            scale;
    const float     *cap;
    __device__ float operator()(float x) const { return *cap * tanhf(scale * x / *cap); }
};
} // namespace

extern "C" RpStatus rp_cuda_soft_cap(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(soft_cap, args));
    return rp_map("soft_cap", args, ctx, SoftCap{args->params->soft_cap.scale, (const float *)args->soft_cap.cap.data});
}
