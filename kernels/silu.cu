/* y = x / (1 + exp(-x)) (map.cuh) */
#include "kernels/map.cuh"

struct Silu {
    __device__ float operator()(float x) const { return x / (1.0f + expf(-x)); }
};

extern "C" RpStatus rp_cuda_silu(const OpArgs *args, KernelCtx *ctx) {
    return rp_map("silu", args, ctx, Silu());
}
