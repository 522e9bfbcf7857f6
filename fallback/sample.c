/* Samples the next token from its logits, in the order of llama.cpp: repetition penalty, top-k, top-p, min-p,
 * temperature, random choice. The probabilities of top-p and min-p are those before the temperature.
 *
 * A worker takes every nth row. The scratch memory holds the candidates, Candidate [n] (base/sampling/candidates.h).
 * Weights are integers (base/sampling.h). The random number is Philox of (seed, counter), and the state is data (I4,
 * reprise/step.h). */
#include "fallback/sample.h"

#include "fallback/rows.h"

#include <math.h>

/* NaN counts as -inf. */
static float finite_or_least(float logit) { return isnan(logit) ? -INFINITY : logit; }

/* How often a token is among the recent ones; 0 if it was there before place i, so that each is penalised once. */
static int32_t count_from(const int32_t *recent, int32_t n, int32_t i) {
    int32_t count = 0;
    for (int32_t k = 0; k < n; k++) {
        if (recent[k] == recent[i] && k < i) return 0;
        count += recent[k] == recent[i];
    }
    return count;
}

static void penalise(const RpStepState *s, const int32_t *recent, float frequency, float presence, Candidate *c) {
    if (s->repeat_penalty == 1.0f && frequency == 0.0f && presence == 0.0f) return;
    for (int32_t i = 0; i < s->n_recent; i++) {
        const int32_t count = count_from(recent, s->n_recent, i);
        float        *logit = &c[recent[i]].logit;
        if (count > 0) *logit = rp_step_penalise(*logit, s->repeat_penalty, frequency, presence, count);
    }
}

/* Every token as a candidate, with mask and penalties. */
static void fill_candidates(const RpStepState *s, const int32_t *recent, SampleExtra extra, const float *logits,
                            int32_t n, Candidate *c) {
    const RpSampleExtra *e    = (const RpSampleExtra *)(const void *)extra;
    const uint32_t      *bits = e != NULL ? (const uint32_t *)(e + 1) : NULL;
    for (int32_t i = 0; i < n; i++) c[i] = (Candidate){.logit = finite_or_least(logits[i]), .id = i};
    for (int32_t i = 0; e != NULL && e->masked != 0 && i < n; i++)
        if ((bits[i / 32] >> (i % 32) & 1) == 0) c[i].logit = -INFINITY;
    penalise(s, recent, e != NULL ? e->frequency_penalty : 0.0f, e != NULL ? e->presence_penalty : 0.0f, c);
}

int32_t rp_sample_token(RpStepState *s, const int32_t *recent, SampleExtra extra, const float *logits, int32_t n,
                        Candidate *c) {
    fill_candidates(s, recent, extra, logits, n, c);
    const Candidate best = rp_candidates_first(c, n);
    if (best.logit == -INFINITY) return -1;
    if (s->temperature == 0.0f || s->top_k == 1) return best.id;
    if (s->top_k > 0 && s->top_k < n) {
        rp_candidates_top_k(c, n, s->top_k);
        n = s->top_k;
    }
    const CandidateScale one = {best.logit, 1.0f}, tempered = {best.logit, s->temperature};
    const bool           sorted = s->top_p < 1.0f;
    if (sorted)
        n = rp_candidates_top_p(c, n, &one, s->top_p, s->min_p, 1);
    else if (s->min_p > 0.0f)
        n = rp_candidates_drop(c, n, &one, fmax((double)s->min_p, 0x1p-40));
    const uint64_t counter = rp_step_drawn(s);
    s->drawn_low           = (uint32_t)(counter + 1);
    s->drawn_high          = (uint32_t)((counter + 1) >> 32);
    return rp_candidates_choose(c, n, &tempered, rp_philox_uniform(rp_step_seed(s), counter), sorted);
}

static RpStatus sample_row(const RpOpArgs *args, int64_t row) {
    const RpTensorView *logits = &args->sample.logits;
    RpStepState        *s      = rp_view_row(&args->dst, row);
    int32_t            *recent = (int32_t *)(void *)s + RP_STEP_WORDS;
    if (s->repeat_last_n < 0 || s->repeat_last_n > args->dst.ne[0] - RP_STEP_WORDS)
        return rp_fail(RP_E_ARG, "sample: %d recent tokens, the state has room for %lld", s->repeat_last_n,
                       (long long)args->dst.ne[0] - RP_STEP_WORDS);
    const SampleExtra extra = rp_is_present(&args->sample.extra) ? rp_view_row(&args->sample.extra, row) : NULL;
    s->token                = rp_sample_token(s, recent, extra, rp_view_row(logits, row), (int32_t)logits->ne[0],
                                              rp_view_row(&args->sample.scratch, row));
    if (s->token < 0)
        return rp_fail(RP_E_ARG, "nothing to sample: each of the %lld logits is NaN or -inf", (long long)logits->ne[0]);
    s->pos++;
    rp_step_accept(s, recent, s->token);
    return RP_OK;
}

RpStatus rp_cpu_sample(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(sample, args));
    for (int64_t row = ctx->ith; row < args->sample.logits.ne[1]; row += ctx->nth) RP_TRY(sample_row(args, row));
    return RP_OK;
}
