/* structured.h - a reply that a grammar holds to its texts.
 *
 *     sampled token -> matcher -> forced tokens, if there are any: not sampled, run with the next chunk
 *                              -> else: run what is pending, mask, sample */
#ifndef MODEL_STRUCTURED_H
#define MODEL_STRUCTURED_H

#include "reprise/session.h"

/* Zero-initialise it; without a matcher all of it is unused. */
typedef struct Structured {
    RpMatcher  *matcher;         /* borrowed */
    uint32_t   *bits;            /* of the vocabulary */
    RpTokenList forced, pending; /* forced[n_taken..]: tokens to come; pending: part of the reply, not in the context */
    size_t      n_taken;
} Structured;

/* Call rp_structured_close also after a failure. RP_E_ARG for a matcher of another vocabulary. */
RP_NODISCARD RpStatus rp_structured_open(Structured *x, RpMatcher *matcher, RpSampler *sampler, int32_t n_vocab);
void                  rp_structured_close(Structured *x, RpSampler *sampler);

/* Samples the next token with the mask of the grammar. The matcher and the sampler accept it. `forced`: the token that
 * the caller wants instead (force_token), or -1. RP_E_ARG if the vocabulary does not have it. */
RP_NODISCARD RpStatus rp_structured_sample(Structured *x, RpSampler *sampler, const float *logits, int32_t forced,
                                           int32_t *token);

/* The next token that the grammar forces. The matcher and the sampler accept it. *found is false if there is none. */
RP_NODISCARD RpStatus rp_structured_forced(Structured *x, RpSampler *sampler, int32_t *token, bool *found);

/* True if tokens that the grammar forces are known and not taken yet. */
static inline bool rp_structured_has_forced(const Structured *x) { return x->n_taken < x->forced.n; }

/* The token after `token`, if there is only one, as above. Else it runs what is pending, and *found is false. */
RP_NODISCARD RpStatus rp_structured_next(Structured *x, RpSession *s, RpSampler *sampler, int32_t *token, bool *found);

/* Appends to the context what is pending. */
RP_NODISCARD RpStatus rp_structured_flush(Structured *x, RpSession *s);

#endif
