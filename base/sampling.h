/* sampling.h - the arithmetic of the samplers, for host and device code. Weights are integers, so their sums are exact
 * and do not depend on the order of additions: the same random number chooses the same token everywhere.
 *
 *     weight = floor(2^40 * exp((logit - max) / temperature))     the sum of fewer than 2^24 of them fits into 64 bits
 */
#ifndef BASE_SAMPLING_H
#define BASE_SAMPLING_H

#include "base/exp.h"

/* Relative to the largest; 1 for it also if it is +inf, where the difference would be NaN. */
RP_EXP_FUNCTION float rp_sampling_probability(float logit, float max, float temperature) {
    return logit == max ? 1.0f : rp_expf((logit - max) / temperature);
}

RP_EXP_FUNCTION uint64_t rp_sampling_weight(float probability) {
    return (uint64_t)(probability * 1099511627776.0f); /* exact: a power of two */
}

/* The sum of weights that the candidates kept by top-p reach, of `mass`: at least 1. */
RP_EXP_FUNCTION uint64_t rp_sampling_nucleus(float top_p, uint64_t mass) {
    const double target = ceil((double)top_p * (double)mass);
    return target < 1.0 ? 1 : (uint64_t)target;
}

/* The random number u in [0, 1) chooses the candidate at which the sum of weights reaches this, of `mass`. */
RP_EXP_FUNCTION uint64_t rp_sampling_choice(float u, uint64_t mass) {
    const uint64_t reached = (uint64_t)((double)u * (double)mass) + 1;
    return reached < mass ? reached : mass;
}

#endif
