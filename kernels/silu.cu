/* y = x / (1 + exp(-x)) (map.cuh) */
#include "kernels/act.cuh"
#include "kernels/map.cuh"

extern "C" RpStatus rp_cuda_silu(const OpArgs *args, KernelCtx *ctx) {
    return rp_map("silu", args, ctx, Silu());
}
