/* y = experts / tokens * sum_t sum_e load[e] * probs[e,t]
 * geometry  one block of 1024 threads
 * traffic   the probabilities once: 4*experts*tokens bytes
 * numerics  f32; each thread adds the products of a row, then its rows; a butterfly per warp, then the warps */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 1024, WARPS = THREADS / RP_WARP };

/* Warp w has tokens w, w + 32, ...; lane l of it experts l, l + 32, ... */
__global__ void __launch_bounds__(THREADS) aux_loss_kernel(RpTensorView probs, RpTensorView load, RpTensorView y) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t n = probs.ne[0], tokens = probs.ne[1] * probs.ne[2] * probs.ne[3];
    const float  *share = (const float *)load.data;
    float         sum   = 0.0f;
    for (int64_t t = (int)threadIdx.x / RP_WARP; t < tokens; t += WARPS) {
        const float *p   = (const float *)probs.data + t * n;
        float        row = 0.0f;
        for (int64_t e = threadIdx.x % RP_WARP; e < n; e += RP_WARP) row = fmaf(share[e], p[e], row);
        sum += row;
    }
    sum = rp_block_sum(sum, scratch);
    if (threadIdx.x == 0) *(float *)y.data = sum * ((float)n / (float)tokens);
}

} // namespace

extern "C" RpStatus rp_cuda_aux_loss(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(aux_loss, args));
    const LaunchShape shape = {dim3(1), dim3(THREADS), 0};
    return RP_LAUNCH("aux_loss", ctx, shape, aux_loss_kernel, args->aux_loss.probs, args->aux_loss.load, args->dst);
}
