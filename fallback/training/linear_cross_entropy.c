/* y[t] = log(sum_i exp(l[i,t])) - l[target,t], l = scale * w x, without a place for all of l. For each chunk of the
 * vocabulary
 *
 *     phase 0   the logits of the chunk, by op gemm
 *     phase 1   top and sum of each column, sum = sum_i exp(l[i] - top): the sum so far and that of the chunk are taken
 *               relative to the larger top (Milakov and Gimelshein 2018, arXiv:1805.02867). Columns are divided among
 *               the workers
 *
 * The losses follow from top, sum and the logit of the target after the last chunk. No bit depends on the number of
 * workers (I8). A NaN or +inf among the logits makes the loss NaN, and so does a chunk of nothing but -inf. */
#include "fallback/fused/fused.h"
#include "fallback/rows.h"
#include "fallback/training/log_sum.h"

#include "base/vocabulary.h"

CpuNeeds rp_needs_linear_cross_entropy(const RpOpArgs *args) {
    return (CpuNeeds){
        .phases = 2 * (int)rp_vocabulary_chunks(&args->linear_cross_entropy.w, &args->linear_cross_entropy.chunk)};
}

/* stats = those of the chunks before and of this one. */
static void fold(const VocabularyChunk *v, int64_t t, int32_t target, float *stats) {
    const float *l   = rp_view_row(&v->logits, t);
    LogSum       s   = rp_log_sum(l, v->rows);
    double       sum = s.sum;
    if (v->first > 0) {
        const float before = stats[0], top = before > s.top ? before : s.top;
        sum   = (double)stats[1] * exp((double)before - (double)top) + s.sum * exp((double)s.top - (double)top);
        s.top = top;
    }
    stats[0] = s.top;
    stats[1] = (float)sum;
    if (target >= v->first && target < v->first + v->rows) stats[2] = l[target - v->first];
}

RpStatus rp_cpu_linear_cross_entropy(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *w = &args->linear_cross_entropy.w, *chunk = &args->linear_cross_entropy.chunk,
                       *targets = &args->linear_cross_entropy.targets;
    RP_TRY(RP_CHECK(linear_cross_entropy, args));
    RP_TRY(rp_check_targets("linear_cross_entropy", targets, w->ne[1]));
    const int64_t         c       = ctx->phase / 2;
    const bool            is_last = c + 1 == rp_vocabulary_chunks(w, chunk);
    const VocabularyChunk v       = rp_vocabulary_chunk(&args->linear_cross_entropy.x, w, chunk, c);
    if (ctx->phase % 2 == 0) {
        VocabularyProduct p;
        rp_vocabulary_logits(&v, args->params->linear_cross_entropy.scale, &p);
        return rp_cpu_gemm(&p.args, ctx);
    }
    for (int64_t t = rp_first_row(chunk, ctx); t < rp_end_row(chunk, ctx); t++) {
        const int32_t target = ((const int32_t *)targets->data)[t];
        float        *stats = rp_view_row(&args->linear_cross_entropy.stats, t), *y = args->dst.data;
        if (target >= 0) fold(&v, t, target, stats);
        if (target < 0) memset(stats, 0, RP_LINEAR_STATS * sizeof *stats);
        if (is_last) y[t] = target < 0 ? 0.0f : (float)(log((double)stats[1]) - ((double)stats[2] - (double)stats[0]));
    }
    return RP_OK;
}
