/* sampler.h - logits to the next token.
 *
 *   SamplerParams p = rp_sampler_defaults();  p.temperature = 0.8f;  p.seed = 7;
 *   Sampler *s;
 *   RP_TRY(rp_sampler_new(&p, n_vocab, &s));
 *   RP_TRY(rp_sampler_sample(s, logits, &token));
 *
 * Order: repetition penalty, temperature, top-k, softmax, top-p, min-p, draw. Temperature 0 is greedy: the highest
 * logit, the lowest id among equals. The random numbers are counter-based (Philox 4x32-10, Salmon et al., SC 2011):
 * draw i of a seed is a function of (seed, i) alone.
 */
#ifndef REPRISE_SAMPLER_H
#define REPRISE_SAMPLER_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SamplerParams {
    float    temperature;     /* >= 0; 0: greedy */
    int32_t  top_k;           /* 0: all */
    float    top_p;           /* (0, 1]; 1: off */
    float    min_p;           /* [0, 1]; 0: off. Relative to the most probable token */
    float    repeat_penalty;  /* > 0; 1: off. Logits of recent tokens are divided (if > 0) or multiplied (if < 0) */
    int32_t  repeat_last_n;   /* how many recent tokens count, 0: off */
    uint64_t seed;
} SamplerParams;

typedef struct Sampler Sampler;

SamplerParams rp_sampler_defaults(void); /* greedy, everything off, repeat_last_n 64, seed 0 */

/* RP_E_ARG names the parameter that is out of range (repeat_last_n: up to 1048576). */
RP_NODISCARD RpStatus rp_sampler_new(const SamplerParams *params, int32_t n_vocab, Sampler **out);
void                  rp_sampler_free(Sampler *s);

int32_t rp_sampler_n_vocab(const Sampler *s);

/* Tells the sampler of a token that stands in the context, for the repetition penalty. An id outside the
 * vocabulary is passed over. */
void rp_sampler_accept(Sampler *s, int32_t token);

/* Draws from n_vocab logits and accepts the token drawn. RP_E_ARG where every logit is NaN or -inf. NaN counts as -inf. */
RP_NODISCARD RpStatus rp_sampler_sample(Sampler *s, const float *logits, int32_t *token);

/* The state as a StepState and its ring (step.h), to hand to an executor that samples on its own; borrowed. After each
 * token that was drawn from it there, rp_sampler_follow brings this sampler to where that one is. */
const int32_t *rp_sampler_state(const Sampler *s, size_t *n_words);
void           rp_sampler_follow(Sampler *s, int32_t token);

/* Forgets the accepted tokens and starts the random sequence anew. */
void rp_sampler_reset(Sampler *s);

/* The counter-based generator itself: draw `counter` of `seed`, uniform in [0, 1). */
float rp_random_uniform(uint64_t seed, uint64_t counter);

#ifdef __cplusplus
}
#endif
#endif
