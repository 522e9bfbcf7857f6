/* y = positive * x^2 + beta * x above 0, else negative * (exp(min(x, eps)) - 1 - x) + beta * x
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  f32; the device's expm1f */
#include "kernels/device/map.cuh"

namespace {
struct Xielu {
    RpXieluParams    p;
    __device__ float operator()(float x) const {
        const float bent = x > 0.0f ? p.positive * x * x : p.negative * (expm1f(fminf(x, p.eps)) - x);
        return fmaf(p.beta, x, bent);
    }
};
} // namespace

extern "C" RpStatus rp_cuda_xielu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(xielu, args));
    return rp_map("xielu", args, ctx, Xielu{args->params->xielu});
}
