/* Log probabilities of the logits themselves: log-softmax. */
#include "base/argument.h"
#include "base/sampling/candidates.h"
#include "reprise/sampler.h"

#include <math.h>

/* Token i as a candidate. NaN counts as -inf. */
static Candidate candidate(const float *logits, int32_t i) {
    return (Candidate){.logit = isnan(logits[i]) ? -INFINITY : logits[i], .id = i};
}

/* ln of the sum of e^(logit - max). The largest counts 1 also if it is +inf. */
static double log_sum(const float *logits, int32_t n, float max) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        const float logit = candidate(logits, i).logit;
        sum += logit == max ? 1.0 : exp((double)logit - (double)max);
    }
    return log(sum);
}

/* Puts the first n_top candidates in order, by insertion: most tokens cost one comparison with the last of them. */
static void find_top(const float *logits, int32_t n, RpTokenLogprob *top, int32_t n_top) {
    for (int32_t i = 0, kept = 0; i < n && n_top > 0; i++) {
        const Candidate c  = candidate(logits, i);
        int32_t         at = kept < n_top ? kept++ : n_top;
        if (at == n_top && !rp_candidate_before(c, (Candidate){top[at - 1].logprob, top[at - 1].token})) continue;
        if (at == n_top) at--;
        for (; at > 0 && rp_candidate_before(c, (Candidate){top[at - 1].logprob, top[at - 1].token}); at--)
            top[at] = top[at - 1];
        top[at] = (RpTokenLogprob){c.id, c.logit};
    }
}

RpStatus rp_logprobs(const float *logits, int32_t n_vocab, int32_t token, RpTokenLogprob *chosen, RpTokenLogprob *top,
                     int32_t n_top) {
    RP_NOT_NULL(logits, "logits");
    if (n_top > 0) RP_NOT_NULL(top, "top");
    if (n_vocab < 1) return rp_fail(RP_E_ARG, "log probabilities of %d logits", n_vocab);
    if (chosen != NULL && (token < 0 || token >= n_vocab))
        return rp_fail(RP_E_ARG, "log probability of token %d: must be from 0 to %d", token, n_vocab - 1);
    if (n_top < 0 || n_top > n_vocab)
        return rp_fail(RP_E_ARG, "log probabilities of %d tokens: must be from 0 to %d", n_top, n_vocab);

    Candidate best = candidate(logits, 0);
    for (int32_t i = 1; i < n_vocab; i++)
        if (rp_candidate_before(candidate(logits, i), best)) best = candidate(logits, i);
    if (best.logit == -INFINITY)
        return rp_fail(RP_E_ARG, "no log probabilities: each of the %d logits is NaN or -inf", n_vocab);
    const double sum = log_sum(logits, n_vocab, best.logit);
    find_top(logits, n_vocab, top, n_top);
    for (int32_t i = -1; i < n_top; i++) {
        RpTokenLogprob *of = i < 0 ? chosen : &top[i];
        if (of == NULL) continue;
        if (i < 0) *of = (RpTokenLogprob){token, candidate(logits, token).logit};
        of->logprob = of->logprob == best.logit ? (float)-sum : (float)((double)of->logprob - (double)best.logit - sum);
    }
    return RP_OK;
}
