/* y = x * Phi(x), Phi the normal distribution function; by erf, or by the tanh approximation (act.cuh).
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   x and y once: 8*elements bytes
 * numerics  f32; the device's erff and tanhf */
#include "kernels/device/act.cuh"
#include "kernels/device/map.cuh"

extern "C" RpStatus rp_cuda_gelu(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gelu, args));
    if (args->params->gelu.kind == RP_GELU_TANH) return rp_map("gelu", args, ctx, GeluTanh());
    return rp_map("gelu", args, ctx, GeluErf());
}
