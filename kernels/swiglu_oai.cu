/* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit)
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   gate, up and y once: 12*elements bytes
 * numerics  f32; the device's expf */
#include "kernels/device/act.cuh"
#include "kernels/device/map.cuh"

extern "C" RpStatus rp_cuda_swiglu_oai(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpSwigluOaiParams *p = &args->params->swiglu_oai;
    RP_TRY(RP_CHECK(swiglu_oai, args));
    return rp_map2("swiglu_oai", args, ctx, SwigluOai{p->alpha, p->limit});
}
