/* Samples the next token from its logits: repetition penalty, temperature, top-k, softmax, top-p, min-p, random choice.
 *
 * Worker 0 does all of it. The scratch memory holds the candidates, Candidate [n]. The vocabulary is never sorted:
 * candidates that cannot be sampled are dropped first, and a heap orders only as many of the others as are needed.
 * Weights are exp((logit - max) / temperature), so the most probable token has weight 1; sums are in double. The random
 * number is Philox of (seed, counter), and the state is data (I4, reprise/step.h). */
#include "fallback/rows.h"

#include "base/philox.h"
#include "base/step_state.h"

#include <float.h>
#include <math.h>

typedef struct Candidate {
    float   logit;
    int32_t id;
} Candidate;

/* NaN counts as -inf. */
static float finite_or_least(float logit) { return isnan(logit) ? -INFINITY : logit; }

/* Every token as a candidate. The penalty is computed from the original logit, so a token that occurs several times
 * in `recent` is penalised once. */
static void fill_candidates(const RpStepState *s, const int32_t *recent, const float *logits, int32_t n,
                            Candidate *c) {
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

/* Proportional to the probability: exp((logit - max) / temperature). It is 1 for logit == max also if max is +inf,
 * where the difference would be NaN. */
static double weight(const RpStepState *s, float logit, float max) {
    return logit == max ? 1.0 : (double)expf((logit - max) / s->temperature);
}

/* Drops candidates of weight below `least` > 0 and returns how many are left, in c[0..kept). */
static int32_t drop_light(const RpStepState *s, Candidate *c, int32_t n, float max, double least) {
    /* weight < least means logit < max + temperature * ln(least). Comparing with this limit, less a margin for
     * rounding, drops most candidates without an exponential. */
    const double margin = 1e-3;
    const double limit  = (double)max + (double)s->temperature * (log(least) - margin);
    int32_t      kept   = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)c[i].logit >= limit && weight(s, c[i].logit, max) >= least) c[kept++] = c[i];
    return kept;
}

/* The nucleus of top-p sampling (Holtzman et al. 2019, arXiv:1904.09751): the fewest candidates, in order, whose
 * weights sum to top_p * sum; a candidate below min_p ends it too. They are popped from the heap and so lie at
 * c[n - 1], c[n - 2], ... Returns how many they are, and in *mass their weight. */
static int32_t pop_nucleus(const RpStepState *s, Candidate *c, int32_t n, float max, double sum,
                           double *mass) {
    const double wanted = (double)s->top_p * sum;
    int32_t      kept   = 0;
    *mass               = 0.0;
    while (kept < n && *mass < wanted) {
        const double w = weight(s, c[0].logit, max);
        if (w < (double)s->min_p) break;
        pop(c, n - kept++);
        *mass += w;
    }
    return kept;
}

static double sum_of_weights(const RpStepState *s, const Candidate *c, int32_t n, float max) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) sum += weight(s, c[i].logit, max);
    return sum;
}

/* With top_p < 1. u in [0, 1) chooses the candidate at which the running sum of weights passes u * mass. */
static int32_t sample_nucleus(const RpStepState *s, Candidate *c, int32_t n, float max, double u) {
    const double sum = sum_of_weights(s, c, n, max);
    double       mass;
    /* All candidates below this weight together weigh less than (1 - top_p) * sum, which top_p leaves out: none of them
     * can be in the nucleus. The factor 0.999 covers rounding. */
    n = drop_light(s, c, n, max, (1.0 - (double)s->top_p) * sum / (double)n * 0.999);
    make_heap(c, n, false);
    const int32_t kept = pop_nucleus(s, c, n, max, sum, &mass);
    double        left = u * mass;
    for (int32_t i = 1; i < kept; i++) {
        left -= weight(s, c[n - i].logit, max);
        if (left < 0.0) return c[n - i].id;
    }
    return c[n - kept].id;
}

/* With top_p = 1: drops candidates below min_p or of weight 0, then pops in order until the running sum of weights
 * passes u times the sum of all. */
static int32_t sample_all(const RpStepState *s, Candidate *c, int32_t n, float max, double u) {
    n           = drop_light(s, c, n, max, fmax((double)s->min_p, (double)FLT_TRUE_MIN));
    double left = u * sum_of_weights(s, c, n, max);
    make_heap(c, n, false);
    for (;;) {
        const Candidate top = pop(c, n--);
        left -= weight(s, top.logit, max);
        if (left < 0.0 || n == 0) return top.id;
    }
}

/* Greedy, or one random number for one token. */
static RpStatus choose(RpStepState *s, Candidate *c, int32_t n, int32_t *token) {
    const Candidate best = first_in_order(c, n);
    if (best.logit == -INFINITY)
        return rp_fail(RP_E_ARG, "nothing to sample: each of the %d logits is NaN or -inf", n);
    *token = best.id;
    if (s->temperature == 0.0f || s->top_k == 1) return RP_OK;
    if (s->top_k > 0 && s->top_k < n) {
        keep_top_k(c, n, s->top_k);
        n = s->top_k;
    }
    const uint64_t counter = rp_step_drawn(s);
    const double   u       = (double)rp_philox_uniform(rp_step_seed(s), counter);
    s->drawn_low           = (uint32_t)(counter + 1);
    s->drawn_high          = (uint32_t)((counter + 1) >> 32);
    *token = s->top_p < 1.0f ? sample_nucleus(s, c, n, best.logit, u) : sample_all(s, c, n, best.logit, u);
    return RP_OK;
}

RpStatus rp_cpu_sample(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_sample(args));
    if (ctx->ith != 0) return RP_OK;
    RpStepState  *s      = args->dst.data;
    int32_t      *recent = (int32_t *)args->dst.data + RP_STEP_WORDS;
    Candidate    *c      = args->sample.scratch.data;
    const int32_t n      = (int32_t)args->sample.logits.ne[0];
    if (s->repeat_last_n < 0 || s->repeat_last_n > args->dst.ne[0] - RP_STEP_WORDS)
        return rp_fail(RP_E_ARG, "sample: %d recent tokens, the state has room for %lld", s->repeat_last_n,
                       (long long)args->dst.ne[0] - RP_STEP_WORDS);
    s->token = -1;
    fill_candidates(s, recent, args->sample.logits.data, n, c);
    RP_TRY(choose(s, c, n, &s->token));
    s->pos++;
    rp_step_accept(s, recent, s->token);
    return RP_OK;
}
