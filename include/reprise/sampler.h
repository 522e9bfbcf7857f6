/* sampler.h - logits to the next token. A sampler owns its parameters, the recent tokens and the position in its random
 * sequence; one thread at a time may use it.
 *
 *   RpSamplerParams p = rp_sampler_defaults();  p.temperature = 0.8f;  p.seed = 7;
 *   RpSampler *s;
 *   RP_TRY(rp_sampler_new(&p, n_vocab, &s));
 *   RP_TRY(rp_sampler_sample(s, logits, &token));
 *   rp_sampler_free(s);
 *
 * The steps and their order are those of llama.cpp: mask and logit bias, penalties, DRY, top-n-sigma, top-k, typical,
 * top-p, min-p, XTC, temperature, random choice. Each step works on the candidates that the one before left; the
 * probabilities of steps before the temperature are those of the logits themselves. RpSamplerParams.samplers is another
 * order. Temperature 0 is greedy: the highest logit that is left, the lowest id among equals. Random numbers are
 * counter-based (Philox 4x32-10, Salmon et al., SC 2011): number i of a seed is a function of (seed, i) alone, so a
 * reply can be reproduced.
 */
#ifndef REPRISE_SAMPLER_H
#define REPRISE_SAMPLER_H

#include "reprise/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpLogitBias {
    int32_t token;
    float   bias; /* added to its logit; -INFINITY: never sampled */
} RpLogitBias;

typedef struct RpSamplerParams {
    float    temperature;    /* >= 0; 0: greedy */
    int32_t  top_k;          /* keep the k highest logits; 0: all */
    float    top_p;          /* (0, 1]: keep the fewest most probable tokens that sum to top_p; 1: off */
    float    min_p;          /* [0, 1]: keep tokens of at least min_p times the highest probability; 0: off */
    float    repeat_penalty; /* > 0: positive logits of recent tokens are divided by it, others multiplied; 1: off */
    int32_t  repeat_last_n;  /* how many recent tokens are penalised, at most 1048576; 0: off */
    uint64_t seed;
    /* 0 or NULL turns each of the steps from here on off. All but the two penalties run on the host only. */
    float typical_p;         /* [0, 1]: locally typical sampling (arXiv:2202.00666); 0 and 1: off */
    float top_n_sigma;       /* >= 0: keep logits of at least max - n standard deviations (arXiv:2411.07641) */
    float frequency_penalty; /* subtracted from the logit for each time that a token is among the recent ones */
    float presence_penalty;  /* subtracted once if it is among them; both count over repeat_last_n */
    /* DRY: a token that would extend a repeated sequence of L >= dry_allowed_length tokens loses dry_multiplier *
     * dry_base^(L - dry_allowed_length). Sequences end at a breaker. */
    float   dry_multiplier; /* 0: off */
    float   dry_base;       /* >= 1 */
    int32_t dry_allowed_length;
    int32_t dry_penalty_last_n; /* how many tokens are searched, at most 1048576; 0: off */
    float   xtc_probability;    /* of XTC: drop all tokens of at least xtc_threshold but the least probable of them */
    float   xtc_threshold;      /* above 0.5: off */
    int32_t min_keep;           /* typical, top-p, min-p and XTC leave at least this many; 0 is 1 */
    int32_t mirostat;       /* 2: Mirostat 2 (arXiv:2007.14966) behind logit bias and temperature, and no other step */
    float   mirostat_tau;   /* its target, in bits */
    float   mirostat_eta;   /* its rate */
    float   dynatemp_range; /* temperature from t - range to t + range, by the entropy; 0: off */
    float   dynatemp_exponent; /* low + (high - low) * (entropy / ln(candidates))^exponent */
    /* All of these are borrowed during rp_sampler_new. */
    const RpLogitBias *logit_bias;
    size_t             n_logit_bias;
    const char *const *dry_breakers;   /* of 1 to 40 bytes; NULL: "\n", ":", "\"" and "*", as in llama.cpp */
    size_t             n_dry_breakers; /* 0 with dry_breakers not NULL: none */
    const RpTokenizer *tokenizer;      /* finds the tokens of the breakers; NULL: no breakers */
    const char        *samplers; /* the steps in another order, those not named are off: "top_k;top_p;temperature" of
                                        * penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, or
                                        * other names of llama.cpp; its infill and adaptive_p are left out */
} RpSamplerParams;

typedef struct RpSampler RpSampler;

RP_API void                   rp_sampler_defaults_sized(RpSamplerParams *out, size_t out_bytes);
static inline RpSamplerParams rp_sampler_defaults(void) {
    RpSamplerParams params;
    rp_sampler_defaults_sized(&params, sizeof params);
    return params;
} /* greedy, everything off, repeat_last_n 64, seed 0; the values that llama.cpp has for steps once they are on:
   * dry_base 1.75, dry_allowed_length 2, dry_penalty_last_n 64, xtc_threshold 0.1, mirostat_tau 5, mirostat_eta 0.1,
   * dynatemp_exponent 1 */

/* The defaults, except that parameters which a model file may recommend are unset: NaN, or INT32_MIN for whole numbers.
 * These are temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, xtc_probability, xtc_threshold, mirostat,
 * mirostat_tau and mirostat_eta. */
RP_API void                   rp_sampler_unset_sized(RpSamplerParams *out, size_t out_bytes);
static inline RpSamplerParams rp_sampler_unset(void) {
    RpSamplerParams params;
    rp_sampler_unset_sized(&params, sizeof params);
    return params;
}

/* Sets the unset members of *params to the values that the file recommends, else to the defaults. A GGUF file
 * recommends by general.sampling.temp, .top_k, .top_p, .min_p, .penalty_repeat, .penalty_last_n, ..., a directory by
 * generation_config.json with do_sample. If the file has top_k, top_p or min_p but no temperature, the temperature is
 * 1, as in transformers. `samplers` is unset if it is NULL; the text of general.sampling.sequence is borrowed from f.
 * `said` receives the values that came from the file, as "temperature 0.6, top_k 20", or "" if there are none; NULL is
 * allowed. RP_E_FORMAT names a key whose value is of another type, outside of its range, or no order of steps.
 *
 *   RpSamplerParams p = rp_sampler_unset();
 *   p.temperature = 0.5f;                                           // this one is the caller's
 *   RP_TRY(rp_sampler_recommended(gguf, &p, NULL, 0)); */
RP_API RP_NODISCARD RpStatus        rp_sampler_recommended_sized(const RpGgufFile *f, RpSamplerParams *params,
                                                                 size_t params_bytes, char *said, size_t said_bytes);
RP_NODISCARD static inline RpStatus rp_sampler_recommended(const RpGgufFile *f, RpSamplerParams *params, char *said,
                                                           size_t said_bytes) {
    return rp_sampler_recommended_sized(f, params, sizeof *params, said, said_bytes);
}

/* Copies the parameters. The caller frees *out; on failure it is NULL. RP_E_ARG names the parameter that is out of
 * range; RP_E_NOMEM; errors of rp_tokenize for a sequence breaker. */
RP_API RP_NODISCARD RpStatus rp_sampler_new_sized(const RpSamplerParams *params, size_t params_bytes, int32_t n_vocab,
                                                  RpSampler **out);
RP_NODISCARD static inline RpStatus rp_sampler_new(const RpSamplerParams *params, int32_t n_vocab, RpSampler **out) {
    return rp_sampler_new_sized(params, sizeof *params, n_vocab, out);
}
RP_API void rp_sampler_free(RpSampler *s); /* NULL is allowed */

RP_API int32_t rp_sampler_n_vocab(const RpSampler *s);

/* Tells the sampler about a token of the context (of the prompt, for instance), for the penalties and DRY. Ids outside
 * the vocabulary are ignored. */
RP_API void rp_sampler_accept(RpSampler *s, int32_t token);

/* Allows only the tokens whose bit is 1: token i has bit i % 32 of bits[i / 32], and there are (n_vocab + 31) / 32
 * words. The logits of all others count as -inf in rp_sampler_sample. Borrowed until the next call; NULL allows every
 * token. The state of the sampler does not contain the mask. rp_generate copies the mask to a GPU for each token, while
 * the GPU computes the logits; rp_executor_reply_next does not use it. */
RP_API void rp_sampler_set_mask(RpSampler *s, const uint32_t *bits);

/* Never samples the tokens of rp_tokenizer_suppressed from now on; tk may have none, or be NULL. rp_generate and
 * engines call this with the tokenizer of the model. RP_E_NOMEM, and then nothing has changed. */
RP_API RP_NODISCARD RpStatus rp_sampler_suppress(RpSampler *s, const RpTokenizer *tk);

/* Samples a token from logits f32 [n_vocab], which it only reads, and accepts it. NaN counts as -inf. RP_E_ARG if every
 * logit is NaN or -inf. */
RP_API RP_NODISCARD RpStatus rp_sampler_sample(RpSampler *s, const float *logits, int32_t *token);

/* The parameters that a GPU does not support, such as "typical_p, min_keep", so that this sampler samples on the host
 * only; "" if a GPU can run all of its steps. Owned by the sampler. If it is not "", rp_generate copies the logits of
 * each token from the GPU to the host. */
RP_API const char *rp_sampler_host_only(const RpSampler *s);

/* The state as n_words of i32: an RpStepState and the ring of recent tokens (step.h). Copy it to start an executor that
 * samples by itself (rp_executor_reply_begin). It does not have the steps of rp_sampler_host_only. Borrowed: valid as
 * long as the sampler. */
RP_API const int32_t *rp_sampler_state(const RpSampler *s, size_t *n_words);

/* Brings this sampler up to date with an executor that sampled `token` from a copy of its state. Call it once for each
 * such token, in order. */
RP_API void rp_sampler_follow(RpSampler *s, int32_t token);

/* A token that a sampler has drawn, or that a reply took without drawing. */
typedef struct RpSampledToken {
    int32_t token;
    int32_t n_vocab;
    const float
        *logits; /* f32 [n_vocab] that it was drawn from, before any step; NULL: a grammar allowed no other token,
                            so that none were computed */
    bool forced; /* not drawn: it came from a grammar or from force_token */
    bool masked; /* drawn with rp_sampler_set_mask */
} RpSampledToken;

/* Borrowed: valid during the call. */
typedef void RpSampleObserver(const RpSampledToken *token, void *user);

/* Calls `observer` for each token of replies, in order, also in rp_generate, rp_chat_generate and engines, but not for
 * tokens of prompts. NULL: no observer. With an observer rp_generate copies the logits of each token from a GPU to the
 * host. */
RP_API void rp_sampler_observe(RpSampler *s, RpSampleObserver *observer, void *user);

/* Forgets the accepted tokens and starts the random sequence again from its first number. */
RP_API void rp_sampler_reset(RpSampler *s);

/* A token and the natural logarithm of its probability. */
typedef struct RpTokenLogprob {
    int32_t token;
    float   logprob;
} RpTokenLogprob;

/* Log probabilities by log-softmax of logits f32 [n_vocab], before any step of a sampler: logit - ln(sum of exp). NaN
 * counts as -inf; sums are in double.
 *   chosen  that of `token`; NULL: not wanted
 *   top     the n_top <= n_vocab most probable tokens in order, the lower id first among equals
 * RP_E_ARG for a token or n_top out of range, or if every logit is NaN or -inf. */
RP_API RP_NODISCARD RpStatus rp_logprobs(const float *logits, int32_t n_vocab, int32_t token, RpTokenLogprob *chosen,
                                         RpTokenLogprob *top, int32_t n_top);

/* Random number `counter` of `seed` (Philox 4x32-10), uniform in [0, 1), as the samplers use it. */
RP_API float rp_random_uniform(uint64_t seed, uint64_t counter);

#ifdef __cplusplus
}
#endif
#endif
