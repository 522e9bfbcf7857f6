/* y = x * Phi(x), by the formula of kind (map.cuh) */
#include "kernels/map.cuh"

struct GeluTanh {
    __device__ float operator()(float x) const {
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * x * x, x, x)));
    }
};

struct GeluErf {
    __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * 0.7071067812f)); }
};

extern "C" RpStatus rp_cuda_gelu(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_gelu(args));
    if (args->params->gelu.kind == RP_GELU_TANH) return rp_map("gelu", args, ctx, GeluTanh());
    return rp_map("gelu", args, ctx, GeluErf());
}
