/* drafter.h - guesses the next tokens of requests (Leviathan et al. 2023, arXiv:2211.17192), by a draft model, a small
 * model of the same vocabulary, by the layer of the model itself that predicts further tokens (MTP), or by an assistant
 * of the model, which reads the KV cache of the engine and needs no other (assistant.c). A guess is its most probable
 * token. The first two have a KV cache of their own, in which each row of the engine's table has fixed blocks:
 *
 *     row r     blocks r * n, r * n + 1, ... r * n + n - 1
 *
 * All requests that decode are guessed for in the same runs:
 *
 *     round 0   tokens that the drafter has not seen yet: of a new request its prompt, later one or two. A
 *               draft model reads at most MOST_UNSEEN of them in a step
 *     round j   the guesses of round j - 1
 *
 * Column q of an MTP layer has token q and the hidden state that predicted it, of position q - 1: of the model for the
 * tokens of the text, of the layer itself for guesses. rp_drafter_put takes the states of the model after each step,
 * also of prompts. They are buffered until there are MTP_WAITING, or until the next guess. So a layer that does not
 * guess runs rarely. A request that begins with cached tokens has no hidden states of them. Its first column is then
 * the one after them, and the cache of its row begins there, unless the row still has the same text. */
#ifndef MODEL_ENGINE_DRAFTER_H
#define MODEL_ENGINE_DRAFTER_H

#include "model/engine/runners.h"

#include "reprise/engine.h"

enum { MAX_DRAFT = 15, DEFAULT_MTP = 3 };
enum { DRAFTER_STEP = 64, MTP_WAITING = DRAFTER_STEP, MOST_UNSEEN = 4 * DRAFTER_STEP };

/* The part of a row that the cache of an MTP layer holds. */
typedef struct MtpRow {
    uint64_t id;                    /* of the request */
    int32_t  first;                 /* the column at position 0 of the cache */
    int32_t  waits_from, n_waiting; /* columns that are not run yet, from n_past on */
} MtpRow;

typedef struct Drafter {
    const RpModel *model;          /* borrowed; NULL: there is none. With mtp the model of the engine */
    bool           mtp, assistant; /* its MTP layer guesses; the model is an assistant. false: a draft model */
    MtpRow         rows[MAX_SEQ];  /* with mtp; an assistant has id, and waits_from of the token behind `next` */
    float         *waiting;        /* with mtp: [n_seq][MTP_WAITING][n_embd] */
    float         *next;           /* [n_seq][n_embd] hidden states that predict the next guess */
    float         *step;           /* [step_tokens][n_embd] hidden states of a step of the engine */
    int32_t        n_embd;         /* of hidden states; 0: a draft model reads none */
    bool           shares;         /* weights and arena with the engine: an assistant, and on a GPU an MTP layer */
    size_t         shared_arena;   /* bytes of the engine's arena */
    int32_t        n_vocab;        /* of both models, at most */
    Runner         runners[ENGINE_RUNNERS]; /* shortest first */
    int            n_runners;
    int32_t        n_ctx, n_seq, block, step_tokens;
    int32_t       *tokens;          /* [n_seq][n_ctx] */
    int32_t        n_past[MAX_SEQ]; /* tokens of each row that the cache has */
    double         seconds;         /* of a round with one token of each request, a moving average; 0: none yet */
} Drafter;

/* The guesses that a request wants. */
typedef struct DraftJob {
    uint64_t       id; /* of the request */
    int32_t        row;
    const int32_t *tokens; /* [n_tokens], at least one */
    int32_t        n_tokens;
    const int32_t *blocks,
        *windows; /* [n_blocks] of the engine's cache, for an assistant; windows: from first_window on */
    int32_t  n_blocks, first_window;
    int32_t *guess; /* gets the guesses */
    int32_t  n;     /* how many are wanted; then how many there are */
} DraftJob;

/* An engine with these options guesses by the MTP layer of its model. */
bool rp_drafter_is_mtp(const RpModel *target, const RpEngineOptions *o);

/* It guesses from hidden states: by an MTP layer or an assistant. */
bool rp_drafter_reads_hidden(const RpModel *target, const RpEngineOptions *o);

/* The engine that a drafter guesses for. */
typedef struct DraftedEngine {
    const RpModel         *model;
    const RpEngineOptions *o;                   /* with the defaults filled in; o->draft may be NULL */
    int32_t                n_blocks, n_windows; /* of its cache; window blocks */
    size_t                 arena;               /* bytes */
    bool                   apart;               /* it is on a GPU */
} DraftedEngine;

/* RP_E_ARG for another vocabulary and for an assistant of other models, RP_E_UNSUPPORTED for a draft model with
 * recurrent states. The caller frees *d, also after a failure. */
RP_NODISCARD RpStatus rp_drafter_plan(Drafter *d, const DraftedEngine *of, const char *passes);

/* `engine`: its executor, whose caches an assistant reads. */
RP_NODISCARD RpStatus rp_drafter_open(Drafter *d, const RpExecutorOptions *o, RpExecutor *engine);
void                  rp_drafter_free(Drafter *d);

/* Bytes of cache, arena and hidden states. */
size_t rp_drafter_bytes(const Drafter *d);

/* The hidden states [n][n_embd] of the tokens at positions pos, pos + 1, ... of a request, of which job has row and
 * tokens; the token behind the last of them is known. */
RP_NODISCARD RpStatus rp_drafter_put(Drafter *d, const DraftJob *job, int32_t pos, int32_t n, const float *hidden);

/* Guesses for n requests, each of another row. A text that is longer than the context of the draft model gets none. */
RP_NODISCARD RpStatus rp_drafter_guess(Drafter *d, DraftJob *jobs, int n);

/* The index of the largest. */
int32_t rp_drafter_most_probable(const float *logits, int32_t n);

/* Notes the time of a round. */
void rp_drafter_note_seconds(Drafter *d, double took);

/* ---- assistant.c: the same of an assistant ---- */

void                  rp_assistant_put(Drafter *d, const DraftJob *job, int32_t pos, int32_t n, const float *hidden);
RP_NODISCARD RpStatus rp_assistant_guess(Drafter *d, DraftJob *jobs, int n);

#endif
