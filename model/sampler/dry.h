/* dry.h - DRY, a penalty on tokens that would continue a repetition of the latest tokens (p-e-w,
 * github.com/oobabooga/text-generation-webui/pull/5677). A token that would extend a repeated sequence of L tokens,
 * L >= allowed_length, loses
 *
 *     multiplier * base^(L - allowed_length)
 *
 * Sequence breakers, such as a newline, end sequences: what lies before the latest one is not compared. */
#ifndef MODEL_SAMPLER_DRY_H
#define MODEL_SAMPLER_DRY_H

#include "base/sampling/candidates.h"
#include "reprise/sampler.h"

/* A breaker as tokens: `head`, which may only end in it, and the `n` tokens of its rest. */
typedef struct DryBreaker {
    int32_t head, n;
    int32_t tail[20];
} DryBreaker;

typedef struct Dry {
    float       multiplier, base;
    int32_t     allowed_length, last_n; /* last_n 0: off */
    int32_t    *ring;                   /* [last_n] */
    int32_t     n, next;                /* tokens in the ring, and where the next goes */
    int32_t    *latest, *repeats;       /* [last_n], of one call: the tokens, latest first; what they repeat */
    DryBreaker *breakers;               /* by head, then in the order of their making */
    size_t      n_breakers, room;
} Dry;

/* Close it also after a failure. RP_E_NOMEM, errors of rp_tokenize. */
RP_NODISCARD RpStatus rp_dry_open(Dry *d, const RpSamplerParams *p);
void                  rp_dry_close(Dry *d);
void                  rp_dry_accept(Dry *d, int32_t token);

/* Adds a breaker of given tokens, n >= 1. */
RP_NODISCARD RpStatus rp_dry_break(Dry *d, const int32_t *tokens, int32_t n);

/* Puts L + 1 into lengths[t] of each token t that would extend a repeated sequence of L tokens, L >= allowed_length.
 * lengths: [n_vocab], of zeros. Returns false if there is none. */
bool rp_dry_lengths(Dry *d, int32_t *lengths);

/* Undoes rp_dry_lengths: zeros again. */
void rp_dry_forget(const Dry *d, int32_t *lengths);

/* The penalty of a token that would extend a repeated sequence of `length` tokens. */
float rp_dry_penalty(const Dry *d, int32_t length);

#endif
