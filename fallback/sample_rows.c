/* Samples a token for each row of logits (sample.c). A worker takes every nth row. The state of a row is the parameters
 * of the op and the seed of the row, before the first random number. */
#include "fallback/sample.h"

#include "fallback/rows.h"

RpStatus rp_cpu_sample_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(sample_rows, args));
    const RpSampleRowsParams *p = &args->params->sample_rows;
    const RpTensorView       *x = &args->sample_rows.logits;
    for (int64_t t = ctx->ith; t < x->ne[1]; t += ctx->nth) {
        const uint32_t *seed = (const uint32_t *)rp_view_row(&args->sample_rows.seeds, t);
        Candidate      *c    = (Candidate *)rp_view_row(&args->sample_rows.scratch, t);
        RpStepState     s    = {.temperature    = p->temperature,
                                .top_k          = p->top_k,
                                .top_p          = p->top_p,
                                .min_p          = p->min_p,
                                .repeat_penalty = 1.0f,
                                .seed_low       = seed[0],
                                .seed_high      = seed[1]};
        ((int32_t *)args->dst.data)[t] =
            rp_sample_token(&s, NULL, NULL, (const float *)rp_view_row(x, t), (int32_t)x->ne[0], c);
    }
    return RP_OK;
}
