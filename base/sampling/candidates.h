/* candidates.h - tokens that may be sampled, and the filters that keep some of them. A vocabulary is never sorted:
 * candidates that cannot be sampled are dropped first, and a heap orders only as many of the others as are needed.
 *
 *   Candidate c[n];                                            // logit and id of each, in any order
 *   const float max = rp_candidates_first(c, n).logit;
 *   rp_candidates_top_k(c, n, 40);  n = 40;
 *   n = rp_candidates_top_p(c, n, &(CandidateScale){max, 1.0f}, 0.95f, 0.05f, 1);
 *   id = rp_candidates_choose(c, n, &(CandidateScale){max, 0.8f}, u);
 *
 * The order of candidates is: higher logit first, lower id among equals. No logit is NaN. */
#ifndef BASE_SAMPLING_CANDIDATES_H
#define BASE_SAMPLING_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Candidate {
    float   logit;
    int32_t id;
} Candidate;

/* Gives the probability of a logit, relative to that of the largest: exp((logit - max) / temperature). */
typedef struct CandidateScale {
    float max, temperature;
} CandidateScale;

static inline bool rp_candidate_before(Candidate a, Candidate b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/* The first of n >= 1 candidates in order. */
Candidate rp_candidates_first(const Candidate *c, int32_t n);

/* Moves the first k candidates in order, 1 <= k <= n, to c[0..k), in any order. */
void rp_candidates_top_k(Candidate *c, int32_t n, int32_t k);

/* Makes c a heap with the first candidate on top; removes the first of a heap of n, which then lies at c[n - 1]. */
void      rp_candidates_heap(Candidate *c, int32_t n);
Candidate rp_candidates_pop(Candidate *c, int32_t n);

/* Turns c around, which has what was popped in order. */
void rp_candidates_reverse(Candidate *c, int32_t n);

/* The nucleus of top-p sampling (Holtzman et al. 2019, arXiv:1904.09751): keeps the fewest candidates, in order, whose
 * weights (base/sampling.h) sum to top_p < 1 of all; a candidate of a relative probability below min_p ends it too.
 * At least min_keep >= 1 stay. Returns how many, in c[0..kept), in order. */
int32_t rp_candidates_top_p(Candidate *c, int32_t n, const CandidateScale *s, float top_p, float min_p,
                            int32_t min_keep);

/* Drops candidates of a relative probability below `least` > 0. Returns how many are left, in c[0..kept); their order
 * does not change. */
int32_t rp_candidates_drop(Candidate *c, int32_t n, const CandidateScale *s, double least);

/* The id of the candidate at which the sum of weights, in order, reaches a share u of all, 0 <= u < 1. `sorted`: they
 * are in order. Changes c: those that cannot be chosen may be lost. */
int32_t rp_candidates_choose(Candidate *c, int32_t n, const CandidateScale *s, float u, bool sorted);

#endif
