/* y[:,t,h] = softmax(scale * x[:,t,h] + mask[:,t]) over the positions that take part, with a sink; as
 * fallback/soft_max.c.
 * geometry  one block of 256 threads a row
 * traffic   x three times (from L2 after the first), y twice
 * x and y may be the same memory (I6): a thread owns its elements in every sweep. */
#include "kernels/soft_max.cuh"

enum { THREADS = RP_SOFT_MAX_THREADS };

__global__ void __launch_bounds__(THREADS) soft_max_kernel(TensorView x, TensorView mask, TensorView pos,
                                                           TensorView sinks, TensorView y, SoftMaxParams p) {
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
    float top = sink;
    for (int64_t i = from + threadIdx.x; i < end; i += THREADS) {
        const float v = p.scale * in[i] + (mask_row != nullptr ? rp_float_at(mask.dtype, mask_row, i) : 0.0f);
        out[i]        = v;
        top           = v > top || v != v ? v : top;
    }
    rp_soft_max(out, from, end, top, sink, scratch);
}

extern "C" RpStatus rp_cuda_soft_max(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_soft_max(args));
    const LaunchShape shape = {dim3((unsigned)rp_view_rows(&args->dst)), dim3(THREADS), 0};
    return RP_LAUNCH("soft_max", ctx, shape, soft_max_kernel, args->src[0], args->src[1], args->src[2],
                     args->src[3], args->dst, args->params->soft_max);
}
