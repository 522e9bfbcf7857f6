/* ids[0..k) of the k largest of x[:,t] + bias[:], largest first; among equals the lower index, NaN below
 * everything. With expert groups only the best groups take part (top_k.cuh).
 * geometry  one warp per token; shared memory: value[n] f32, taken[n] u8, 5*n bytes
 * traffic   x and bias once; k argmax rounds over shared memory, k*n/32 reads per lane
 * numerics  one f32 addition; comparisons are exact
 *
 * For k = 1 of a long row: one block of 512 threads per token, no shared values, any n. */
#include "kernels/device/keys.cuh"
#include "kernels/device/top_k.cuh"

namespace {

/* 48 KiB are the shared memory of a block without opting in to more; a value takes five bytes. */
enum { MAX_VALUES = 48 * 1024 / 5, LONG_ROW = 2048, ARGMAX_THREADS = 512 };

__global__ void __launch_bounds__(RP_WARP)
    top_k_kernel(RpTensorView x, RpTensorView bias, RpTensorView y, RpTopKParams p) {
    rp_begin();
    RP_SHARED_DYNAMIC(float, values);
    const int      n = (int)x.ne[0], lane = (int)threadIdx.x;
    unsigned char *taken = (unsigned char *)(values + n);
    const float   *in    = (const float *)rp_row(x, blockIdx.x);
    int32_t       *ids   = (int32_t *)rp_row(y, blockIdx.x);
    for (int i = lane; i < n; i += RP_WARP) {
        values[i] = in[i] + (bias.data != nullptr ? ((const float *)bias.data)[i] : 0.0f);
        taken[i]  = 0;
    }
    rp_top_k(values, taken, n, p, ids);
}

__global__ void __launch_bounds__(ARGMAX_THREADS) argmax_kernel(RpTensorView x, RpTensorView bias, RpTensorView y) {
    rp_begin();
    RP_SHARED(RpKey, keys, [RP_WARP]);
    const float *in   = (const float *)rp_row(x, blockIdx.x);
    RpKey        best = 0;
    for (int i = (int)threadIdx.x; i < (int)x.ne[0]; i += ARGMAX_THREADS) {
        const float v   = in[i] + (bias.data != nullptr ? ((const float *)bias.data)[i] : 0.0f);
        const RpKey key = (RpKey)rp_sorted_key(v) << 32 | (0xffffffffu - (unsigned)i);
        best            = key > best ? key : best;
    }
    best = rp_block_max_key(best, keys);
    if (threadIdx.x == 0) *(int32_t *)rp_row(y, blockIdx.x) = rp_key_id(best);
}

} // namespace

extern "C" RpStatus rp_cuda_top_k(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(top_k, args));
    const RpTensorView *x = &args->top_k.x;
    const RpTopKParams *p = &args->params->top_k;
    if (p->k == 1 && p->n_group <= 1 && x->ne[0] > LONG_ROW && x->ne[0] < INT_MAX - ARGMAX_THREADS) {
        const LaunchShape one = {dim3((unsigned)x->ne[1]), dim3(ARGMAX_THREADS), 0};
        return RP_LAUNCH("top_k", ctx, one, argmax_kernel, *x, args->top_k.bias, args->dst);
    }
    if (x->ne[0] > MAX_VALUES)
        return rp_fail(RP_E_UNSUPPORTED, "top_k: rows of %lld: must be at most %d, which fit the shared memory",
                       (long long)x->ne[0], MAX_VALUES);
    const LaunchShape shape = {dim3((unsigned)x->ne[1]), dim3(RP_WARP), (unsigned)x->ne[0] * 5};
    return RP_LAUNCH("top_k", ctx, shape, top_k_kernel, *x, args->top_k.bias, args->dst, *p);
}
