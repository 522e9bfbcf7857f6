/* sample.h - the choice of a token from its logits (sample.c), for the ops sample and sample_rows. */
#ifndef FALLBACK_SAMPLE_H
#define FALLBACK_SAMPLE_H

#include "base/sampling/candidates.h"
#include "base/step_state.h"

/* Further parameters of the choice: an RpSampleExtra and its bits, or NULL. */
typedef const int32_t *SampleExtra;

/* The token for the parameters, the seed and the counter of `s`, which it increments if it draws a random number; -1 if
 * every logit is NaN or -inf. `c` is memory for n candidates. */
int32_t rp_sample_token(RpStepState *s, const int32_t *recent, SampleExtra extra, const float *logits, int32_t n,
                        Candidate *c);

#endif
