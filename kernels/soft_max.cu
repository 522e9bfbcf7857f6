/* y[i,t,h] = exp(s_i - m) / (sum_j exp(s_j - m) + exp(sink[h] - m)), s = scale * x[:,t,h] + mask[:,t],
 * m = max(s, sink[h]). With positions, only max(0, pos[t]-window+1) <= i <= pos[t] take part: results before
 * them are 0, results after them stay unwritten.
 * geometry  one block of 256 threads per row, three sweeps: scores and maximum, exponentials and sum, division
 * traffic   x once from DRAM; y is written three times and read twice, within L2
 * numerics  f32, the device's expf; the sum per thread, then a butterfly per warp, then the warps
 * x and y may be the same memory (I6): a thread has the same elements in every sweep. */
#include "kernels/device/soft_max.cuh"

namespace {

enum { THREADS = RP_SOFT_MAX_THREADS };

__global__ void __launch_bounds__(THREADS) soft_max_kernel(RpTensorView x, RpTensorView mask, RpTensorView pos,
                                                           RpTensorView sinks, RpTensorView y, RpSoftMaxParams p) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t r = blockIdx.x, t = r % x.ne[1], h = r / x.ne[1] % x.ne[2];
    const float  *in   = (const float *)rp_row(x, r);
    float        *out  = (float *)rp_row(y, r);
    int64_t       from = 0, end = x.ne[0];
    if (pos.data != nullptr) {
        const int64_t last = (int64_t)((const int32_t *)pos.data)[t] + 1;
        end                = last < end ? last : end;
        if (p.window > 0 && end > p.window) from = end - p.window;
    }
    const char *mask_row = mask.data != nullptr ? rp_row_at(mask, t, 0, 0) : nullptr;
    const float sink     = sinks.data != nullptr ? ((const float *)sinks.data)[h] : -INFINITY;
    for (int64_t i = threadIdx.x; i < from && i < end; i += THREADS) out[i] = 0.0f;
    float maximum = sink;
    for (int64_t i = from + threadIdx.x; i < end; i += THREADS) {
        const float v = p.scale * in[i] + (mask_row != nullptr ? rp_float_at(mask.dtype, mask_row, i) : 0.0f);
        out[i]        = v;
        maximum       = v > maximum || v != v ? v : maximum;
    }
    rp_soft_max(out, from, end, maximum, sink, scratch);
}

} // namespace

extern "C" RpStatus rp_cuda_soft_max(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(soft_max, args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("soft_max", ctx, shape, soft_max_kernel, args->soft_max.x, args->soft_max.mask, args->soft_max.pos,
                     args->soft_max.sinks, args->dst, args->params->soft_max);
}
