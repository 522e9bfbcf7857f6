/* chain.h - the steps of llama.cpp's samplers that the op `sample` lacks, in any order. A chain runs on the host; the
 * random numbers and the recent tokens are those of the step state.
 *
 *   RP_TRY(rp_chain_check(&params));
 *   RP_TRY(rp_chain_open(&chain, &params, n_vocab));
 *   if (chain.used) n = rp_chain_filter(&chain, &run);      // candidates that are left; 0: none is finite
 *   token = rp_chain_choose(&chain, &run);
 *   rp_chain_accept(&chain, token);
 *   rp_chain_close(&chain);
 */
#ifndef MODEL_SAMPLER_CHAIN_H
#define MODEL_SAMPLER_CHAIN_H

#include "base/sampling/candidates.h"
#include "base/step_state.h"
#include "model/sampler/dry.h"

enum { MAX_STEPS = 16, MAX_LAST_N = 1 << 20 };

typedef struct Chain {
    RpSamplerParams p; /* its pointers are NULL */
    bool            used;
    char            why[256]; /* the parameters that no op has, "a, b"; "" */
    int8_t          order[MAX_STEPS];
    int             n_steps;
    RpLogitBias    *bias;
    size_t          n_bias;
    int32_t         n_vocab;
    int32_t        *counts; /* [n_vocab], zeros between calls */
    float          *logits; /* [n_vocab], of one call */
    Dry             dry;
    float           mu; /* of mirostat */
} Chain;

/* One call. The caller sets the first five members. */
typedef struct ChainRun {
    RpStepState    *state;
    const int32_t  *recent; /* its ring */
    const float    *logits; /* [n_vocab] */
    const uint32_t *mask;   /* bits of n_vocab, or NULL */
    Candidate      *c;      /* room for n_vocab */
    int32_t         n;
    float           temperature; /* applied so far: probabilities are those of logits divided by it */
    bool            dense;       /* c[i] is token i, and may be -inf */
    bool            sorted, greedy;
} ChainRun;

/* RP_E_ARG, with the parameter, for one out of range that the step state does not have. */
RP_NODISCARD RpStatus rp_chain_check(const RpSamplerParams *p, int32_t n_vocab);

/* Copies what it needs. Close it also after a failure. RP_E_NOMEM; errors of rp_tokenize for a sequence breaker. */
RP_NODISCARD RpStatus rp_chain_open(Chain *chain, const RpSamplerParams *p, int32_t n_vocab);
void                  rp_chain_close(Chain *chain);
void                  rp_chain_reset(Chain *chain);
void                  rp_chain_accept(Chain *chain, int32_t token);

/* All steps but the choice. Returns r->n: how many candidates are left, in r->c. */
int32_t rp_chain_filter(Chain *chain, ChainRun *r);

/* The probability of candidate i of r->c. */
double rp_chain_probability(const ChainRun *r, int32_t i);

/* Chooses one of n >= 1 candidates that are left. */
int32_t rp_chain_choose(Chain *chain, ChainRun *r);

/* Mirostat learns that candidate i was chosen. */
void rp_chain_observe(Chain *chain, const ChainRun *r, int32_t i);

/* The order of a text such as "penalties;top_k;temperature" (RpSamplerParams.samplers), NULL: the default. Returns the
 * number of steps. RP_E_ARG for an unknown or a repeated name, through *st. */
int rp_chain_order(const char *text, int8_t order[MAX_STEPS], RpStatus *st);

/* Temperature and mirostat, without any other step. */
void rp_chain_mirostat_order(Chain *chain);

#endif
