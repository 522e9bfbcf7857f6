/* d[i,t] = scale * (exp(l[i,t] - top) / sum - (i = target)) * dy[t];  dx += d w, dw = d x, chunk by chunk of the
 * vocabulary
 * geometry  for each chunk: its logits by gemm.cu; d in their place, one block of 512 threads per column; dx and dw by
 *           gemm.cu
 * traffic   w twice, dw once; x twice and dx twice for each chunk; the logits of a chunk five times, from L2 if they
 *           fit there
 * numerics  as in gemm.cu; f32, the device's expf. dx is summed in the order of the chunks (I8)
 * A target outside of the vocabulary that is not -1 makes its gradient NaN. */
#include "kernels/device/log_sum.cuh"

#include "base/kernels.h"
#include "base/vocabulary.h"

namespace {

enum { THREADS = RP_LOG_SUM_THREADS };

struct DifferenceArgs {
    RpTensorView   logits;
    const int32_t *targets;
    const float   *stats, *dy;
    float          scale;
    int64_t        first, vocab; /* first row of the chunk, rows of all */
};

__global__ void __launch_bounds__(THREADS) linear_cross_entropy_backward_kernel(DifferenceArgs p) {
    rp_begin();
    const int64_t t = blockIdx.x, n = p.logits.ne[0];
    const int32_t target = p.targets[t];
    const int64_t at     = target - p.first;
    const float  *stats  = p.stats + RP_LINEAR_STATS * t;
    float        *d      = (float *)rp_row(p.logits, t);
    if (target < 0 || target >= p.vocab) { /* the same for all threads */
        for (int64_t i = threadIdx.x; i < n; i += THREADS) d[i] = target == -1 ? 0.0f : NAN;
        return;
    }
    const float top = stats[0], inverse = 1.0f / stats[1], factor = p.scale * p.dy[t];
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float y = expf(d[i] - top) * inverse;
        d[i]          = (i == at ? y - 1.0f : y) * factor;
    }
}

RpStatus products(const RpOpArgs *args, const VocabularyChunk *v, RpKernelCtx *ctx) {
    const RpTensorView &dw = args->linear_cross_entropy_backward.dw;
    VocabularyProduct   p;
    rp_vocabulary_dx(v, &args->dst, &p);
    RP_TRY(rp_cuda_gemm(&p.args, ctx));
    if (!rp_is_present(&dw)) return RP_OK;
    rp_vocabulary_dw(v, &dw, &p);
    return rp_cuda_gemm(&p.args, ctx);
}

} // namespace

extern "C" RpStatus rp_cuda_linear_cross_entropy_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(linear_cross_entropy_backward, args));
    const RpTensorView &x = args->linear_cross_entropy_backward.x, &w = args->linear_cross_entropy_backward.w,
                       &chunk = args->linear_cross_entropy_backward.chunk;
    const float       scale   = args->params->linear_cross_entropy_backward.scale;
    const LaunchShape shape   = {dim3((unsigned)x.ne[1]), dim3(THREADS), 0};
    for (int64_t c = 0; c < rp_vocabulary_chunks(&w, &chunk); c++) {
        const VocabularyChunk v = rp_vocabulary_chunk(&x, &w, &chunk, c);
        VocabularyProduct     p;
        rp_vocabulary_logits(&v, scale, &p);
        RP_TRY(rp_cuda_gemm(&p.args, ctx));
        const DifferenceArgs d = {v.logits,
                                  (const int32_t *)args->linear_cross_entropy_backward.targets.data,
                                  (const float *)args->linear_cross_entropy_backward.stats.data,
                                  (const float *)args->linear_cross_entropy_backward.dy.data,
                                  scale != 0.0f ? scale : 1.0f,
                                  v.first,
                                  w.ne[1]};
        RP_TRY(RP_LAUNCH("linear_cross_entropy_backward", ctx, shape, linear_cross_entropy_backward_kernel, d));
        RP_TRY(products(args, &v, ctx));
    }
    return RP_OK;
}
