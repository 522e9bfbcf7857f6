/* y = x * Phi(x), by the formula of kind (map.cuh) */
#include "kernels/act.cuh"
#include "kernels/map.cuh"

extern "C" RpStatus rp_cuda_gelu(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_gelu(args));
    if (args->params->gelu.kind == RP_GELU_TANH) return rp_map("gelu", args, ctx, GeluTanh());
    return rp_map("gelu", args, ctx, GeluErf());
}
