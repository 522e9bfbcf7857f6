/* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit) (map.cuh) */
#include "kernels/map.cuh"

struct SwigluOai {
    float            alpha, limit;
    __device__ float operator()(float gate, float up) const {
        const float g = gate > limit ? limit : gate;
        const float u = up > limit ? limit : (up < -limit ? -limit : up);
        return g / (1.0f + expf(-alpha * g)) * (u + 1.0f);
    }
};

extern "C" RpStatus rp_cuda_swiglu_oai(const OpArgs *args, KernelCtx *ctx) {
    const SwigluOaiParams *p = &args->params->swiglu_oai;
    RP_TRY(rp_check_swiglu_oai(args));
    return rp_map2("swiglu_oai", args, ctx, SwigluOai{p->alpha, p->limit});
}
