/* drafter.h - a draft model: a small model of the same vocabulary, which guesses the next tokens of requests
 * (Leviathan et al. 2023, arXiv:2211.17192). A guess is its most probable token. It has a KV cache of its own, in which
 * each row of the engine's table has fixed blocks:
 *
 *     row r     blocks r * n, r * n + 1, ... r * n + n - 1
 *
 * All requests that decode are guessed for in the same runs:
 *
 *     round 0   tokens that the draft model has not seen yet: of a new request its prompt, later one or two
 *     round j   the guesses of round j - 1 */
#ifndef MODEL_ENGINE_DRAFTER_H
#define MODEL_ENGINE_DRAFTER_H

#include "model/engine/runners.h"

#include "reprise/engine.h"

enum { MAX_DRAFT = 15, DRAFTER_STEP = 64 };

typedef struct Drafter {
    const RpModel *model;                   /* borrowed; NULL: there is none */
    int32_t        n_vocab;                 /* of both models, at most */
    Runner         runners[ENGINE_RUNNERS]; /* shortest first */
    int            n_runners;
    int32_t        n_ctx, n_seq, block;
    int32_t       *tokens;          /* [n_seq][n_ctx] */
    int32_t        n_past[MAX_SEQ]; /* tokens of each row that the cache has */
    double         seconds;         /* of a round with one token of each request, a moving average; 0: none yet */
} Drafter;

/* The guesses that a request wants. */
typedef struct DraftJob {
    int32_t        row;
    const int32_t *tokens; /* [n_tokens], at least one */
    int32_t        n_tokens;
    int32_t       *guess; /* gets the guesses */
    int32_t        n;     /* how many are wanted; then how many there are */
} DraftJob;

/* `o` has the defaults filled in; o->draft may be NULL. RP_E_ARG for another vocabulary, RP_E_UNSUPPORTED for a draft
 * model with recurrent states. The caller frees *d, also after a failure. */
RP_NODISCARD RpStatus rp_drafter_plan(Drafter *d, const RpModel *target, const RpEngineOptions *o, const char *passes);
RP_NODISCARD RpStatus rp_drafter_open(Drafter *d, const RpExecutorOptions *o);
void                  rp_drafter_free(Drafter *d);

/* Bytes of cache and arena. */
size_t rp_drafter_bytes(const Drafter *d);

/* Guesses for n requests, each of another row. A text that is longer than the context of the draft model gets none. */
RP_NODISCARD RpStatus rp_drafter_guess(Drafter *d, DraftJob *jobs, int n);

#endif
