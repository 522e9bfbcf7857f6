#include "reprise/sampler.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_LAST_N = 1 << 20 };

typedef struct Candidate {
    float   logit;
    int32_t id;
} Candidate;

struct Sampler {
    SamplerParams params;
    int32_t       n_vocab;
    uint64_t      n_drawn;    /* counter of the next random number */
    Candidate    *candidates; /* [n_vocab], scratch of one draw */
    int32_t      *recent;     /* ring of repeat_last_n tokens */
    int32_t       n_recent, next_recent;
};

SamplerParams rp_sampler_defaults(void) {
    return (SamplerParams){.top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 64};
}

/* Written so that NaN fails each of them. */
static RpStatus check_params(const SamplerParams *p, int32_t n_vocab) {
    if (n_vocab < 1) return rp_fail(RP_E_ARG, "sampler: a vocabulary of %d tokens", n_vocab);
    if (!(p->temperature >= 0.0f && p->temperature < INFINITY))
        return rp_fail(RP_E_ARG, "temperature %g: a number from 0 up is possible", (double)p->temperature);
    if (p->top_k < 0) return rp_fail(RP_E_ARG, "top_k %d: from 0 (all tokens) up is possible", p->top_k);
    if (!(p->top_p > 0.0f && p->top_p <= 1.0f))
        return rp_fail(RP_E_ARG, "top_p %g: above 0 and up to 1 is possible", (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return rp_fail(RP_E_ARG, "min_p %g: from 0 to 1 is possible", (double)p->min_p);
    if (!(p->repeat_penalty > 0.0f && p->repeat_penalty < INFINITY))
        return rp_fail(RP_E_ARG, "repeat_penalty %g: a number above 0 is possible",
                       (double)p->repeat_penalty);
    if (p->repeat_last_n < 0 || p->repeat_last_n > MAX_LAST_N)
        return rp_fail(RP_E_ARG, "repeat_last_n %d: from 0 to %d is possible", p->repeat_last_n, MAX_LAST_N);
    return RP_OK;
}

RpStatus rp_sampler_new(const SamplerParams *params, int32_t n_vocab, Sampler **out) {
    *out = NULL;
    RP_TRY(check_params(params, n_vocab));
    Sampler *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->params     = *params;
        s->n_vocab    = n_vocab;
        s->candidates = malloc((size_t)n_vocab * sizeof *s->candidates);
        s->recent     = malloc(((size_t)params->repeat_last_n + 1) * sizeof *s->recent);
    }
    if (s == NULL || s->candidates == NULL || s->recent == NULL) {
        rp_sampler_free(s);
        return rp_fail(RP_E_NOMEM, "out of memory for a sampler of %d tokens", n_vocab);
    }
    *out = s;
    return RP_OK;
}

void rp_sampler_free(Sampler *s) {
    if (s == NULL) return;
    free(s->candidates);
    free(s->recent);
    free(s);
}

int32_t rp_sampler_n_vocab(const Sampler *s) { return s->n_vocab; }

void rp_sampler_reset(Sampler *s) { s->n_drawn = 0, s->n_recent = 0, s->next_recent = 0; }

void rp_sampler_accept(Sampler *s, int32_t token) {
    const int32_t size = s->params.repeat_last_n;
    if (size == 0 || token < 0 || token >= s->n_vocab) return;
    s->recent[s->next_recent] = token;
    s->next_recent            = (s->next_recent + 1) % size;
    if (s->n_recent < size) s->n_recent++;
}

static float finite_or_least(float logit) { return isnan(logit) ? -INFINITY : logit; }

static bool penalises(const Sampler *s) { return s->params.repeat_penalty != 1.0f && s->n_recent > 0; }

/* Every logit as a candidate. A token that occurred several times is penalised once. */
static void fill_candidates(Sampler *s, const float *logits) {
    for (int32_t i = 0; i < s->n_vocab; i++)
        s->candidates[i] = (Candidate){.logit = finite_or_least(logits[i]), .id = i};
    if (!penalises(s)) return;
    for (int32_t i = 0; i < s->n_recent; i++) {
        const int32_t id        = s->recent[i];
        const float   logit     = finite_or_least(logits[id]);
        const float   penalty   = s->params.repeat_penalty;
        s->candidates[id].logit = logit > 0.0f ? logit / penalty : logit * penalty;
    }
}

/* The one order of everything here: higher logit first, lower id among equals. */
static bool before(Candidate a, Candidate b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

/* Heaps over c[0..n): the first in that order is on top, or the last in it where `last_on_top`. */
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

/* Moves the first k in order of all n to c[0..k). One comparison for most of the others. */
static void keep_top_k(Candidate *c, int32_t n, int32_t k) {
    make_heap(c, k, true);
    for (int32_t i = k; i < n; i++) {
        if (!before(c[i], c[0])) continue;
        c[0] = c[i];
        sift_down(c, k, 0, true);
    }
}

/* Takes the first in order off a heap of n and leaves it at c[n - 1]. */
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

/* Proportional to the probability; 1 for the most probable, also where that is +inf. */
static double weight(const Sampler *s, float logit, float max) {
    return logit == max ? 1.0 : (double)expf((logit - max) / s->params.temperature);
}

/* Drops candidates lighter than `least` > 0; returns how many are left. Their order changes. */
static int32_t drop_light(const Sampler *s, Candidate *c, int32_t n, float max, double least) {
    const double margin = 1e-3; /* most are dropped by their logit, without an exponential */
    const double limit  = (double)max + (double)s->params.temperature * (log(least) - margin);
    int32_t      kept   = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)c[i].logit >= limit && weight(s, c[i].logit, max) >= least) c[kept++] = c[i];
    return kept;
}

/* The nucleus: the shortest run of candidates, in order, that holds top_p of `sum`; those that fail min_p end
 * it too. They are popped off the heap and so lie at c[n - 1], c[n - 2], ...; returns how many, and their
 * weight. */
static int32_t pop_nucleus(const Sampler *s, Candidate *c, int32_t n, float max, double sum, double *mass) {
    const double wanted = (double)s->params.top_p * sum;
    int32_t      kept   = 0;
    *mass               = 0.0;
    while (kept < n && *mass < wanted) {
        const double w = weight(s, c[0].logit, max);
        if (w < (double)s->params.min_p) break;
        pop(c, n - kept++);
        *mass += w;
    }
    return kept;
}

static double sum_of_weights(const Sampler *s, const Candidate *c, int32_t n, float max) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) sum += weight(s, c[i].logit, max);
    return sum;
}

static int32_t draw_from_nucleus(const Sampler *s, Candidate *c, int32_t n, float max, double u) {
    const double sum = sum_of_weights(s, c, n, max);
    double       mass;
    /* What is lighter than this weighs less, all together, than what top_p leaves out: none of it can be in.
     */
    n = drop_light(s, c, n, max, (1.0 - (double)s->params.top_p) * sum / (double)n * 0.999);
    make_heap(c, n, false);
    const int32_t kept = pop_nucleus(s, c, n, max, sum, &mass);
    double        left = u * mass;
    for (int32_t i = 1; i < kept; i++) {
        left -= weight(s, c[n - i].logit, max);
        if (left < 0.0) return c[n - i].id;
    }
    return c[n - kept].id;
}

static int32_t draw_from_all(const Sampler *s, Candidate *c, int32_t n, float max, double u) {
    n           = drop_light(s, c, n, max, fmax((double)s->params.min_p, (double)FLT_TRUE_MIN));
    double left = u * sum_of_weights(s, c, n, max);
    make_heap(c, n, false);
    for (;;) {
        const Candidate top = pop(c, n--);
        left -= weight(s, top.logit, max);
        if (left < 0.0 || n == 0) return top.id;
    }
}

RpStatus rp_sampler_sample(Sampler *s, const float *logits, int32_t *token) {
    const SamplerParams *p = &s->params;
    fill_candidates(s, logits);
    const Candidate best = first_in_order(s->candidates, s->n_vocab);
    if (best.logit == -INFINITY)
        return rp_fail(RP_E_ARG, "nothing to sample: each of the %d logits is NaN or -inf", s->n_vocab);
    if (p->temperature == 0.0f || p->top_k == 1) {
        *token = best.id;
    } else {
        int32_t n = s->n_vocab;
        if (p->top_k > 0 && p->top_k < n) {
            keep_top_k(s->candidates, n, p->top_k);
            n = p->top_k;
        }
        const double u = (double)rp_random_uniform(p->seed, s->n_drawn++);
        *token         = p->top_p < 1.0f ? draw_from_nucleus(s, s->candidates, n, best.logit, u)
                                         : draw_from_all(s, s->candidates, n, best.logit, u);
    }
    rp_sampler_accept(s, *token);
    return RP_OK;
}
