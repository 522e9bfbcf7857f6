/* y = 1 / (1 + exp(-x)) (map.cuh) */
#include "kernels/map.cuh"

struct Sigmoid {
    __device__ float operator()(float x) const { return 1.0f / (1.0f + expf(-x)); }
};

extern "C" RpStatus rp_cuda_sigmoid(const OpArgs *args, KernelCtx *ctx) {
    return rp_map("sigmoid", args, ctx, Sigmoid());
}
