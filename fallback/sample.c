/* Samples the next token from its logits: repetition penalty, temperature, top-k, softmax, top-p, min-p, random choice.
 *
 * A worker takes every nth row. The scratch memory holds the candidates, SampleCandidate [n]. The vocabulary is never
 * sorted: candidates that cannot be sampled are dropped first, and a heap orders only as many of the others as are
 * needed. Weights are integers (base/sampling.h). The random number is Philox of (seed, counter), and the state is data
 * (I4, reprise/step.h). */
#include "fallback/sample.h"

#include "base/sampling.h"
#include "fallback/rows.h"

typedef SampleCandidate Candidate;

/* NaN counts as -inf. */
static float finite_or_least(float logit) { return isnan(logit) ? -INFINITY : logit; }

/* Every token as a candidate. The penalty is computed from the original logit, so a token that occurs several times
 * in `recent` is penalised once. */
static void fill_candidates(const RpStepState *s, const int32_t *recent, const float *logits, int32_t n, Candidate *c) {
    for (int32_t i = 0; i < n; i++) c[i] = (Candidate){.logit = finite_or_least(logits[i]), .id = i};
    if (s->repeat_penalty == 1.0f) return;
    for (int32_t i = 0; i < s->n_recent; i++) {
        const float logit  = finite_or_least(logits[recent[i]]);
        c[recent[i]].logit = logit > 0.0f ? logit / s->repeat_penalty : logit * s->repeat_penalty;
    }
}

/* The order of candidates everywhere in this file: higher logit first, lower id among equals. */
static bool before(Candidate a, Candidate b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

/* Binary heaps over c[0..n): children of i are 2i + 1 and 2i + 2. The top is the first candidate in order, or the last
 * one with `last_on_top`. */
static void sift_down(Candidate *c, int32_t n, int32_t i, bool last_on_top) {
    const Candidate moved = c[i];
    for (int64_t child = 2 * (int64_t)i + 1; child < n; child = 2 * child + 1) {
        if (child + 1 < n && before(c[child + 1], c[child]) != last_on_top) child++;
        if (before(c[child], moved) == last_on_top) break;
        c[i] = c[child];
        i    = (int32_t)child;
    }
    c[i] = moved;
}

static void make_heap(Candidate *c, int32_t n, bool last_on_top) {
    for (int32_t i = n / 2 - 1; i >= 0; i--) sift_down(c, n, i, last_on_top);
}

/* Moves the first k candidates in order to c[0..k). A heap of k holds the best so far, with the last of them on top:
 * most of the other n - k candidates cost one comparison. */
static void keep_top_k(Candidate *c, int32_t n, int32_t k) {
    make_heap(c, k, true);
    for (int32_t i = k; i < n; i++) {
        if (!before(c[i], c[0])) continue;
        c[0] = c[i];
        sift_down(c, k, 0, true);
    }
}

/* Removes the first candidate in order from a heap of n and leaves it at c[n - 1]. */
static Candidate pop(Candidate *c, int32_t n) {
    const Candidate top = c[0];
    c[0]                = c[n - 1];
    c[n - 1]            = top;
    sift_down(c, n - 1, 0, false);
    return top;
}

static Candidate first_in_order(const Candidate *c, int32_t n) {
    Candidate best = c[0];
    for (int32_t i = 1; i < n; i++)
        if (before(c[i], best)) best = c[i];
    return best;
}

static float probability(const RpStepState *s, float logit, float max) {
    return rp_sampling_probability(logit, max, s->temperature);
}

static uint64_t weight(const RpStepState *s, float logit, float max) {
    return rp_sampling_weight(probability(s, logit, max));
}

/* Drops candidates of probability below `least` > 0, relative to the best, and returns how many are left, in
 * c[0..kept). */
static int32_t drop_light(const RpStepState *s, Candidate *c, int32_t n, float max, double least) {
    /* probability < least means logit < max + temperature * ln(least). Comparing with this limit, less a margin for
     * rounding, drops most candidates without an exponential. */
    const double margin = 1e-3;
    const double limit  = (double)max + (double)s->temperature * (log(least) - margin);
    int32_t      kept   = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)c[i].logit >= limit && (double)probability(s, c[i].logit, max) >= least) c[kept++] = c[i];
    return kept;
}

/* The nucleus of top-p sampling (Holtzman et al. 2019, arXiv:1904.09751): the fewest candidates, in order, whose
 * weights sum to `wanted`; a candidate below min_p ends it too. They are popped from the heap and so lie at
 * c[n - 1], c[n - 2], ... Returns how many they are, and in *mass their weight. */
static int32_t pop_nucleus(const RpStepState *s, Candidate *c, int32_t n, float max, uint64_t wanted, uint64_t *mass) {
    int32_t kept = 0;
    *mass        = 0;
    while (kept < n && *mass < wanted) {
        if (probability(s, c[0].logit, max) < s->min_p) break;
        *mass += weight(s, pop(c, n - kept++).logit, max);
    }
    return kept;
}

static uint64_t sum_of_weights(const RpStepState *s, const Candidate *c, int32_t n, float max) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += weight(s, c[i].logit, max);
    return sum;
}

/* With top_p < 1. u in [0, 1) chooses the candidate at which the running sum of weights reaches a share u. */
static int32_t sample_nucleus(const RpStepState *s, Candidate *c, int32_t n, float max, float u) {
    const uint64_t sum = sum_of_weights(s, c, n, max), wanted = rp_sampling_nucleus(s->top_p, sum);
    uint64_t       mass, reached                              = 0;
    /* All candidates below this probability together weigh less than (1 - top_p) * sum, which top_p leaves out: none of
     * them can be in the nucleus. The factor 0.999 covers rounding. */
    n = drop_light(s, c, n, max, (1.0 - (double)s->top_p) * (double)sum * 0x1p-40 / (double)n * 0.999);
    make_heap(c, n, false);
    const int32_t  kept   = pop_nucleus(s, c, n, max, wanted, &mass);
    const uint64_t choice = rp_sampling_choice(u, mass);
    for (int32_t i = 1; i < kept; i++) {
        reached += weight(s, c[n - i].logit, max);
        if (reached >= choice) return c[n - i].id;
    }
    return c[n - kept].id;
}

/* With top_p = 1: drops candidates below min_p or of weight 0, then pops in order until the running sum of weights
 * reaches a share u of the sum of all. */
static int32_t sample_all(const RpStepState *s, Candidate *c, int32_t n, float max, float u) {
    n                      = drop_light(s, c, n, max, fmax((double)s->min_p, 0x1p-40));
    const uint64_t choice  = rp_sampling_choice(u, sum_of_weights(s, c, n, max));
    uint64_t       reached = 0;
    make_heap(c, n, false);
    for (;;) {
        const Candidate top = pop(c, n--);
        reached += weight(s, top.logit, max);
        if (reached >= choice || n == 0) return top.id;
    }
}

int32_t rp_sample_token(RpStepState *s, const int32_t *recent, const float *logits, int32_t n, Candidate *c) {
    fill_candidates(s, recent, logits, n, c);
    const Candidate best = first_in_order(c, n);
    if (best.logit == -INFINITY) return -1;
    if (s->temperature == 0.0f || s->top_k == 1) return best.id;
    if (s->top_k > 0 && s->top_k < n) {
        keep_top_k(c, n, s->top_k);
        n = s->top_k;
    }
    const uint64_t counter = rp_step_drawn(s);
    const float    u       = rp_philox_uniform(rp_step_seed(s), counter);
    s->drawn_low           = (uint32_t)(counter + 1);
    s->drawn_high          = (uint32_t)((counter + 1) >> 32);
    return s->top_p < 1.0f ? sample_nucleus(s, c, n, best.logit, u) : sample_all(s, c, n, best.logit, u);
}

static RpStatus sample_row(const RpOpArgs *args, int64_t row) {
    const RpTensorView *logits = &args->sample.logits;
    RpStepState        *s      = rp_view_row(&args->dst, row);
    int32_t            *recent = (int32_t *)(void *)s + RP_STEP_WORDS;
    if (s->repeat_last_n < 0 || s->repeat_last_n > args->dst.ne[0] - RP_STEP_WORDS)
        return rp_fail(RP_E_ARG, "sample: %d recent tokens, the state has room for %lld", s->repeat_last_n,
                       (long long)args->dst.ne[0] - RP_STEP_WORDS);
    s->token = rp_sample_token(s, recent, rp_view_row(logits, row), (int32_t)logits->ne[0],
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
