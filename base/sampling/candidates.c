/* Binary heaps over candidates. Sums are of integer weights (base/sampling.h), which do not depend on the order of
 * additions, so a device that adds in another order chooses the same token. */
#include "base/sampling/candidates.h"

#include "base/sampling.h"

#include <math.h>

/* Binary heaps over c[0..n): children of i are 2i + 1 and 2i + 2. The top is the first candidate in order, or the last
 * one with `last_on_top`. */
static void sift_down(Candidate *c, int32_t n, int32_t i, bool last_on_top) {
    const Candidate moved = c[i];
    for (int64_t child = 2 * (int64_t)i + 1; child < n; child = 2 * child + 1) {
        if (child + 1 < n && rp_candidate_before(c[child + 1], c[child]) != last_on_top) child++;
        if (rp_candidate_before(c[child], moved) == last_on_top) break;
        c[i] = c[child];
        i    = (int32_t)child;
    }
    c[i] = moved;
}

static void make_heap(Candidate *c, int32_t n, bool last_on_top) {
    for (int32_t i = n / 2 - 1; i >= 0; i--) sift_down(c, n, i, last_on_top);
}

void rp_candidates_heap(Candidate *c, int32_t n) { make_heap(c, n, false); }

Candidate rp_candidates_pop(Candidate *c, int32_t n) {
    const Candidate top = c[0];
    c[0]                = c[n - 1];
    c[n - 1]            = top;
    sift_down(c, n - 1, 0, false);
    return top;
}

void rp_candidates_reverse(Candidate *c, int32_t n) {
    for (int32_t i = 0, k = n - 1; i < k; i++, k--) {
        const Candidate moved = c[i];
        c[i]                  = c[k];
        c[k]                  = moved;
    }
}

Candidate rp_candidates_first(const Candidate *c, int32_t n) {
    Candidate best = c[0];
    for (int32_t i = 1; i < n; i++) /* one comparison for most */
        if (c[i].logit >= best.logit && rp_candidate_before(c[i], best)) best = c[i];
    return best;
}

/* A heap of k holds the best so far, with the last of them on top: most of the other n - k candidates cost one
 * comparison. */
void rp_candidates_top_k(Candidate *c, int32_t n, int32_t k) {
    make_heap(c, k, true);
    for (int32_t i = k; i < n; i++) {
        if (!rp_candidate_before(c[i], c[0])) continue;
        c[0] = c[i];
        sift_down(c, k, 0, true);
    }
}

static float probability(const CandidateScale *s, float logit) {
    return rp_sampling_probability(logit, s->max, s->temperature);
}

static uint64_t weight(const CandidateScale *s, float logit) { return rp_sampling_weight(probability(s, logit)); }

static uint64_t sum_of_weights(const Candidate *c, int32_t n, const CandidateScale *s) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += weight(s, c[i].logit);
    return sum;
}

int32_t rp_candidates_drop(Candidate *c, int32_t n, const CandidateScale *s, double least) {
    /* probability < least means logit < max + temperature * ln(least). Comparing with this limit, less a margin for
     * rounding, drops most candidates without an exponential. */
    const double margin = 1e-3;
    const double limit  = (double)s->max + (double)s->temperature * (log(least) - margin);
    int32_t      kept   = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)c[i].logit >= limit && (double)probability(s, c[i].logit) >= least) c[kept++] = c[i];
    return kept;
}

/* The kept candidates are popped from a heap of the others and so lie at c[n - 1], c[n - 2], ...; then they move to the
 * front. */
int32_t rp_candidates_top_p(Candidate *c, int32_t n, const CandidateScale *s, float top_p, float min_p,
                            int32_t min_keep) {
    const uint64_t sum = sum_of_weights(c, n, s), wanted = rp_sampling_nucleus(top_p, sum);
    uint64_t       mass = 0;
    int32_t        kept = 0;
    /* All candidates below this probability together weigh less than (1 - top_p) * sum, which top_p leaves out: none of
     * them can be in the nucleus. The factor 0.999 covers rounding. */
    if (min_keep <= 1)
        n = rp_candidates_drop(c, n, s, (1.0 - (double)top_p) * (double)sum * 0x1p-40 / (double)n * 0.999);
    make_heap(c, n, false);
    while (kept < n && (kept < min_keep || (mass < wanted && !(probability(s, c[0].logit) < min_p))))
        mass += weight(s, rp_candidates_pop(c, n - kept++).logit);
    rp_candidates_reverse(c, n);
    return kept;
}

int32_t rp_candidates_choose(Candidate *c, int32_t n, const CandidateScale *s, float u, bool sorted) {
    /* Without a weight of 0 at the end of the order: they cannot be chosen. */
    if (!sorted) n = rp_candidates_drop(c, n, s, 0x1p-40);
    const uint64_t choice  = rp_sampling_choice(u, sum_of_weights(c, n, s));
    uint64_t       reached = 0;
    if (!sorted) make_heap(c, n, false);
    for (int32_t i = 0;;) {
        const Candidate top = sorted ? c[i++] : rp_candidates_pop(c, n--);
        reached += weight(s, top.logit);
        if (reached >= choice || (sorted ? i == n : n == 0)) return top.id;
    }
}
