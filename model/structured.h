/* structured.h - a reply that is constrained by a grammar.
 *
 *     sampled token -> matcher -> forced tokens, if there are any: not sampled, run with the next chunk
 *                              -> else: run what is pending, mask, sample
 *
 * The mask needs no logits, so that a host may make it while a GPU computes them (rp_structured_prepare). */
#ifndef MODEL_STRUCTURED_H
#define MODEL_STRUCTURED_H

#include "reprise/session.h"

/* Zero-initialise it; without a matcher all of it is unused. */
typedef struct Structured {
    RpMatcher  *matcher;         /* borrowed */
    uint32_t   *bits;            /* of the vocabulary */
    RpTokenList forced, pending; /* forced[n_taken..]: tokens to come; pending: part of the reply, not in the context */
    size_t      n_taken;
    RpForceToken *force; /* of the caller, or NULL */
    void         *user;
    bool          asked, ready; /* for the next token: `force`; the mask is made */
    int32_t       given;        /* what `force` returned, or -1 */
} Structured;

/* Call rp_structured_close also after a failure. `force` may be NULL. RP_E_ARG for a matcher of another vocabulary. */
RP_NODISCARD RpStatus rp_structured_open(Structured *x, RpMatcher *matcher, RpSampler *sampler, int32_t n_vocab,
                                         RpForceToken *force, void *user);
void                  rp_structured_close(Structured *x, RpSampler *sampler);

/* Asks force_token for the next token, x->given; if there is none, makes the mask. Once for each token: until it is
 * taken further calls do nothing. RP_E_ARG for a token that the vocabulary does not have. */
RP_NODISCARD RpStatus rp_structured_prepare(Structured *x, int32_t n_vocab);

/* Prepares and samples the next token. The matcher and the sampler accept it. */
RP_NODISCARD RpStatus rp_structured_sample(Structured *x, RpSampler *sampler, const float *logits, int32_t *token);

/* The matcher accepts a token that was sampled elsewhere with the mask. */
RP_NODISCARD RpStatus rp_structured_take(Structured *x, int32_t token);

/* The next token that the grammar forces. The matcher and the sampler accept it. *found is false if there is none. */
RP_NODISCARD RpStatus rp_structured_forced(Structured *x, RpSampler *sampler, int32_t *token, bool *found);

/* True if tokens that the grammar forces are known and not taken yet. */
static inline bool rp_structured_has_forced(const Structured *x) { return x->n_taken < x->forced.n; }

/* `token` is pending. It becomes the token after it, if there is only one, as above. */
RP_NODISCARD RpStatus rp_structured_next(Structured *x, RpSampler *sampler, int32_t *token, bool *found);

/* Appends to the context what is pending. */
RP_NODISCARD RpStatus rp_structured_flush(Structured *x, RpSession *s);

#endif
