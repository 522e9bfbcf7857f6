/* sampler.h - logits to the next token. A sampler owns its parameters, the recent tokens and the position in its random
 * sequence; one thread at a time may use it.
 *
 *   RpSamplerParams p = rp_sampler_defaults();  p.temperature = 0.8f;  p.seed = 7;
 *   RpSampler *s;
 *   RP_TRY(rp_sampler_new(&p, n_vocab, &s));
 *   RP_TRY(rp_sampler_sample(s, logits, &token));
 *   rp_sampler_free(s);
 *
 * The order of the steps is: repetition penalty, temperature, top-k, softmax, top-p, min-p, random choice. Temperature
 * 0 is greedy: the highest logit, the lowest id among equals. Random numbers are counter-based (Philox 4x32-10, Salmon
 * et al., SC 2011): number i of a seed is a function of (seed, i) alone, so a reply can be reproduced.
 */
#ifndef REPRISE_SAMPLER_H
#define REPRISE_SAMPLER_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpSamplerParams {
    float    temperature;    /* >= 0; 0: greedy */
    int32_t  top_k;          /* keep the k highest logits; 0: all */
    float    top_p;          /* (0, 1]: keep the fewest most probable tokens that sum to top_p; 1: off */
    float    min_p;          /* [0, 1]: keep tokens of at least min_p times the highest probability; 0: off */
    float    repeat_penalty; /* > 0: positive logits of recent tokens are divided by it, others multiplied; 1: off */
    int32_t  repeat_last_n;  /* how many recent tokens are penalised, at most 1048576; 0: off */
    uint64_t seed;
} RpSamplerParams;

typedef struct RpSampler RpSampler;

RP_API void                   rp_sampler_defaults_sized(RpSamplerParams *out, size_t out_bytes);
static inline RpSamplerParams rp_sampler_defaults(void) {
    RpSamplerParams params;
    rp_sampler_defaults_sized(&params, sizeof params);
    return params;
} /* greedy, everything off, repeat_last_n 64, seed 0 */

/* Copies the parameters. The caller frees *out; on failure it is NULL. RP_E_ARG names the parameter that is out of
 * range; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_sampler_new_sized(const RpSamplerParams *params, size_t params_bytes, int32_t n_vocab,
                                                  RpSampler **out);
RP_NODISCARD static inline RpStatus rp_sampler_new(const RpSamplerParams *params, int32_t n_vocab, RpSampler **out) {
    return rp_sampler_new_sized(params, sizeof *params, n_vocab, out);
}
RP_API void rp_sampler_free(RpSampler *s); /* NULL is allowed */

RP_API int32_t rp_sampler_n_vocab(const RpSampler *s);

/* Tells the sampler about a token of the context (of the prompt, for instance), for the repetition penalty. Ids outside
 * the vocabulary are ignored. */
RP_API void rp_sampler_accept(RpSampler *s, int32_t token);

/* Allows only the tokens whose bit is 1: token i has bit i % 32 of bits[i / 32], and there are (n_vocab + 31) / 32
 * words. The logits of all others count as -inf in rp_sampler_sample. Borrowed until the next call; NULL allows every
 * token. The state of the sampler does not contain the mask: an executor that samples by itself does not know it. */
RP_API void rp_sampler_set_mask(RpSampler *s, const uint32_t *bits);

/* Samples a token from logits f32 [n_vocab], which it only reads, and accepts it. NaN counts as -inf. RP_E_ARG if every
 * logit is NaN or -inf. */
RP_API RP_NODISCARD RpStatus rp_sampler_sample(RpSampler *s, const float *logits, int32_t *token);

/* The state as n_words of i32: an RpStepState and the ring of recent tokens (step.h). Copy it to start an executor that
 * samples by itself (rp_executor_reply_begin). Borrowed: valid as long as the sampler. */
RP_API const int32_t *rp_sampler_state(const RpSampler *s, size_t *n_words);

/* Brings this sampler up to date with an executor that sampled `token` from a copy of its state. Call it once for each
 * such token, in order. */
RP_API void rp_sampler_follow(RpSampler *s, int32_t token);

/* Forgets the accepted tokens and starts the random sequence again from its first number. */
RP_API void rp_sampler_reset(RpSampler *s);

/* Random number `counter` of `seed`, uniform in [0, 1): rp_philox_uniform (philox.h). */
RP_API float rp_random_uniform(uint64_t seed, uint64_t counter);

#ifdef __cplusplus
}
#endif
#endif
