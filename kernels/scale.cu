/* y = scale * x + bias
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  one fused multiply-add in f32 */
#include "kernels/device/map.cuh"

namespace {

struct Scale {
    float            scale, bias;
    __device__ float operator()(float x) const { return fmaf(scale, x, bias); }
};

} // namespace

extern "C" RpStatus rp_cuda_scale(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(scale, args));
    const RpScaleParams *p = &args->params->scale;
    return rp_map("scale", args, ctx, Scale{p->scale, p->bias});
}
