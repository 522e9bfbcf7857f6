/* y[e] = sum of weights[t] over the j,t with ids[j,t] = e / number of ids; without weights each id counts 1
 * geometry  one block of 256 threads per expert, which looks at all ids
 * traffic   ids and weights once, from then on from L2: 4*k*tokens + 4*tokens bytes, and 4 for each expert
 * numerics  without weights exact except for the division: counts are at most 2^24 */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) expert_load_kernel(RpTensorView ids, RpTensorView weights, RpTensorView y) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int    n = (int)(ids.ne[0] * ids.ne[1] * ids.ne[2] * ids.ne[3]), k = (int)ids.ne[0];
    const float *w     = (const float *)weights.data; /* nullptr without */
    float        count = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        if (((const int32_t *)ids.data)[i] == (int32_t)blockIdx.x) count += w != nullptr ? w[i / k] : 1.0f;
    count = rp_block_sum(count, scratch);
    if (threadIdx.x == 0) ((float *)y.data)[blockIdx.x] = count / (float)n;
}

} // namespace

extern "C" RpStatus rp_cuda_expert_load(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(expert_load, args));
    const LaunchShape shape = {dim3((unsigned)args->dst.ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("expert_load", ctx, shape, expert_load_kernel, args->expert_load.ids, args->expert_load.weights,
                     args->dst);
}
