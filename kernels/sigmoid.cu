/* y = 1 / (1 + exp(-x)) (map.cuh) */
#include "kernels/act.cuh"
#include "kernels/map.cuh"

extern "C" RpStatus rp_cuda_sigmoid(const OpArgs *args, KernelCtx *ctx) {
    return rp_map("sigmoid", args, ctx, Sigmoid());
}
