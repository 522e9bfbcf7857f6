/* y[e] = number of ids that are e / number of ids
 * geometry  one block of 256 threads per expert, which looks at all ids
 * traffic   the ids once, from then on from L2: 4*k*tokens bytes, and 4 for each expert
 * numerics  exact but for the division: counts are at most 2^24 */
#include "kernels/device/device.cuh"

#include "base/check_loss.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) expert_load_kernel(RpTensorView ids, RpTensorView y) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int n     = (int)(ids.ne[0] * ids.ne[1] * ids.ne[2] * ids.ne[3]);
    float     count = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        count += ((const int32_t *)ids.data)[i] == (int32_t)blockIdx.x ? 1.0f : 0.0f;
    count = rp_block_sum(count, scratch);
    if (threadIdx.x == 0) ((float *)y.data)[blockIdx.x] = count / (float)n;
}

} // namespace

extern "C" RpStatus rp_cuda_expert_load(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_expert_load(args));
    const LaunchShape shape = {dim3((unsigned)args->dst.ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("expert_load", ctx, shape, expert_load_kernel, args->expert_load.ids, args->dst);
}
