/* y[t] = log(sum_i exp(l[i,t])) - l[target,t], l = scale * w x, chunk by chunk of the vocabulary
 * geometry  for each chunk: its logits by gemm.cu; then one block of 512 threads per column adds them to top and sum
 * traffic   w once, x once for each chunk, and the logits of a chunk twice, from L2 where it is that large
 * numerics  as in gemm.cu and log_sum.cuh; chunks are added in order, each relative to the larger top
 * A target outside of the vocabulary that is not -1 has the loss NaN: a kernel cannot return an error. */
#include "kernels/device/log_sum.cuh"

#include "base/kernels.h"
#include "base/vocabulary.h"

namespace {

enum { THREADS = RP_LOG_SUM_THREADS };

struct FoldArgs {
    RpTensorView   logits;
    const int32_t *targets;
    float         *stats, *y;
    int64_t        first, vocab; /* first row of the chunk, rows of all */
};

__device__ void fold(const FoldArgs &p, const float *l, int64_t t, LogSum s) {
    float        *stats  = p.stats + RP_LINEAR_STATS * t;
    const int32_t target = p.targets[t];
    const int64_t at     = target - p.first;
    float         of     = p.first > 0 ? stats[2] : 0.0f;
    if (p.first > 0) {
        LogSum      before = {stats[0], stats[1]};
        const float top    = fmaxf(before.top, s.top);
        before.rescale(top), s.rescale(top);
        s.sum += before.sum;
    }
    if (target == -1) s.top = s.sum = of = 0.0f;
    if (at >= 0 && at < p.logits.ne[0]) of = l[at];
    stats[0] = s.top, stats[1] = s.sum, stats[2] = of;
    if (p.first + p.logits.ne[0] < p.vocab) return;
    p.y[t] = target == -1 ? 0.0f : target < 0 || target >= p.vocab ? NAN : logf(s.sum) - (of - s.top);
}

__global__ void __launch_bounds__(THREADS) linear_cross_entropy_kernel(FoldArgs p) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t t = blockIdx.x;
    const float  *l = (const float *)rp_row(p.logits, t);
    const LogSum  s = rp_log_sum(l, p.logits.ne[0], scratch);
    if (threadIdx.x == 0) fold(p, l, t, s);
}

} // namespace

extern "C" RpStatus rp_cuda_linear_cross_entropy(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(linear_cross_entropy, args));
    const RpTensorView &x = args->linear_cross_entropy.x, &w = args->linear_cross_entropy.w,
                       &chunk = args->linear_cross_entropy.chunk;
    const LaunchShape shape   = {dim3((unsigned)x.ne[1]), dim3(THREADS), 0};
    for (int64_t c = 0; c < rp_vocabulary_chunks(&w, &chunk); c++) {
        const VocabularyChunk v = rp_vocabulary_chunk(&x, &w, &chunk, c);
        VocabularyProduct     p;
        rp_vocabulary_logits(&v, args->params->linear_cross_entropy.scale, &p);
        RP_TRY(rp_cuda_gemm(&p.args, ctx));
        const FoldArgs f = {v.logits,
                            (const int32_t *)args->linear_cross_entropy.targets.data,
                            (float *)args->linear_cross_entropy.stats.data,
                            (float *)args->dst.data,
                            v.first,
                            w.ne[1]};
        RP_TRY(RP_LAUNCH("linear_cross_entropy", ctx, shape, linear_cross_entropy_kernel, f));
    }
    return RP_OK;
}
