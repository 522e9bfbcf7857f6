/* The gradient of linear_cross_entropy. For each chunk of the vocabulary
 *
 *     phase 0   the logits of the chunk again, by op gemm: l
 *     phase 1   d[i,t] = scale * (exp(l[i,t] - top) / sum - (i = target)) * dy[t], in place of l; 0 for target -1
 *     phase 2   dx += d w and dw = d x, by op gemm
 *
 * top and sum are those of linear_cross_entropy. The element of the target is computed in double, as in
 * cross_entropy_backward. dx is summed in the order of the chunks. No bit depends on the number of workers (I8). */
#include "fallback/fused/fused.h"
#include "fallback/rows.h"
#include "fallback/training/log_sum.h"

#include "base/vocabulary.h"

enum { PHASES = 3 };

CpuNeeds rp_needs_linear_cross_entropy_backward(const RpOpArgs *args) {
    return (CpuNeeds){.phases = PHASES * (int)rp_vocabulary_chunks(&args->linear_cross_entropy_backward.w,
                                                                   &args->linear_cross_entropy_backward.chunk)};
}

/* x = exp(x - top) * inverse * factor */
RP_BODY void weigh_body(float *x, float top, float inverse, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = rp_expf(x[i] - top) * inverse * factor;
}
RP_VARIANTS(weigh, (float *x, float top, float inverse, float factor, int64_t n), (x, top, inverse, factor, n))

static void differentiate(const VocabularyChunk *v, int64_t t, int32_t target, const float *stats, float dy) {
    float *d = rp_view_row(&v->logits, t);
    if (target < 0) {
        memset(d, 0, (size_t)v->rows * sizeof *d);
        return;
    }
    const double sum = (double)stats[1];
    weigh(d, stats[0], (float)(1.0 / sum), dy, v->rows);
    if (target < v->first || target >= v->first + v->rows) return;
    const double p       = (double)rp_expf(stats[2] - stats[0]) / sum;
    d[target - v->first] = (float)((p - 1.0) * (double)dy);
}

static RpStatus products(const RpOpArgs *args, const VocabularyChunk *v, RpKernelCtx *ctx) {
    const RpTensorView *dw = &args->linear_cross_entropy_backward.dw;
    VocabularyProduct   p;
    rp_vocabulary_dx(v, &args->dst, &p);
    RP_TRY(rp_cpu_gemm(&p.args, ctx));
    if (!rp_is_present(dw)) return RP_OK;
    rp_vocabulary_dw(v, dw, &p);
    return rp_cpu_gemm(&p.args, ctx);
}

RpStatus rp_cpu_linear_cross_entropy_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *w = &args->linear_cross_entropy_backward.w, *chunk = &args->linear_cross_entropy_backward.chunk,
                       *targets = &args->linear_cross_entropy_backward.targets;
    RP_TRY(RP_CHECK(linear_cross_entropy_backward, args));
    RP_TRY(rp_check_targets("linear_cross_entropy_backward", targets, w->ne[1]));
    const float           scale = args->params->linear_cross_entropy_backward.scale;
    const VocabularyChunk v =
        rp_vocabulary_chunk(&args->linear_cross_entropy_backward.x, w, chunk, ctx->phase / PHASES);
    if (ctx->phase % PHASES == 0) {
        VocabularyProduct p;
        rp_vocabulary_logits(&v, scale, &p);
        return rp_cpu_gemm(&p.args, ctx);
    }
    if (ctx->phase % PHASES == 2) return products(args, &v, ctx);
    for (int64_t t = rp_first_row(chunk, ctx); t < rp_end_row(chunk, ctx); t++) {
        const float dy = ((const float *)args->linear_cross_entropy_backward.dy.data)[t];
        differentiate(&v, t, ((const int32_t *)targets->data)[t],
                      rp_view_row(&args->linear_cross_entropy_backward.stats, t), scale != 0.0f ? scale * dy : dy);
    }
    return RP_OK;
}
