/* engine.h - the inside of an RpEngine.
 *
 *     rp_engine_add -> waiting requests -> schedule.c: which tokens a step runs -> step.c: runs them, samples -> events
 *
 * A request is its prompt and the tokens that were sampled so far. `n_done` of them have been run. A request that
 * decodes must run the last one; a request that begins, or begins again, must run all. A step treats both alike.
 *
 * On a GPU the columns of replies and of prompts have different bits (RpColumns), and each position belongs to one
 * kind: `apart`. A step then runs a plan of each kind, and only prompts are published as prefixes. */
#ifndef MODEL_ENGINE_ENGINE_H
#define MODEL_ENGINE_ENGINE_H

#include "model/engine/blocks.h"
#include "model/engine/drafter.h"
#include "model/engine/runners.h"
#include "model/engine/states.h"
#include "model/engine/windows.h"
#include "model/structured.h"
#include "model/text/text_out.h"

#include "reprise/engine.h"

enum { MAX_FORCED = 32, AGING_STEPS = 256, PROBE_STEPS = 32, MAX_PROBE_STEPS = 1024 };
enum { PREFIX_STATES = 2, PREFIX_WINDOWS = 4 }; /* room for those of a request, at least */

typedef struct Request Request;
struct Request {
    Request          *next; /* in the queue */
    RpEngine         *engine;
    uint64_t          id;
    uint64_t          waits_since; /* the step in which it was queued, or gave its blocks up */
    uint64_t          waited;      /* steps until it ran */
    RpRequest         given;       /* its prompt and stop strings are not valid: the copies below are */
    RpGenerateOptions options;
    const char      **stops; /* with their texts behind them; or NULL */
    TextOut           out;
    Structured        structured;
    RpTokenLogprob   *top;    /* [given.n_logprobs], or NULL */
    int32_t          *tokens; /* [n_ctx]: prompt and reply */
    int32_t           n_prompt, n_tokens, n_done;
    int32_t          *blocks; /* [n_ctx / block]: of its positions, the first n_blocks */
    int32_t           n_blocks, n_published;
    int32_t          *windows; /* [n_ctx / block]: window blocks of the same positions, from first_window on */
    int32_t           first_window;
    int32_t           parting;          /* published blocks that it has in common with other texts, when it started */
    int32_t           row;              /* of the table, while it runs */
    int32_t           state, start;     /* slots of recurrent states: its own; that it starts from, or -1 */
    int32_t           n_columns;        /* of the present step */
    int32_t           column, n_hidden; /* its columns of the latest step whose hidden states a drafter reads */
    int32_t           n_generated, n_cached, n_drafted, n_accepted;
    bool              cancelled, ended, started; /* started: it has run before, n_cached is known */
    bool              accepted;                  /* the sampler has its prompt */
    double            added_s, started_s, first_s;
    double            accepts;                   /* share of its guesses that were right lately */
    uint64_t          last_draft;                /* step of its latest guess */
    uint64_t          probe_steps;               /* steps without guesses, after which it tries again */
    bool              goes_on;                   /* its latest guesses were all right */
    int32_t           guess[MAX_DRAFT], n_guess; /* for the present step */
    size_t            text_room;                 /* bytes of its events in one step, at most */
    size_t            n_events;                  /* of one step, at most */
};

/* A token of a step. */
typedef struct Column {
    Request     *request;
    int32_t      token, pos;
    bool         output; /* the logits after it are needed */
    int32_t      keep;   /* slot that its recurrent state is kept in for its block; STATE_NONE: none */
    const float *logits; /* of an output, once it has been run */
} Column;

typedef struct EngineEvent {
    RpEngineEvent event;
    size_t        text, error; /* offsets in the buffer of texts */
} EngineEvent;

/* The time of the runs of a plan. */
typedef struct RunTime {
    double   seconds;     /* a moving average; 0: none yet */
    uint64_t last_step;   /* of its latest run */
    uint64_t probe_steps; /* after this many without a run it is tried again, if it takes longer than step_ms */
} RunTime;

struct RpEngine {
    const RpModel  *model;
    RpEngineOptions o; /* with the defaults filled in */
    char           *passes;
    char            device[16];              /* "cpu", "cuda:0" */
    bool            apart;                   /* replies and prompts have plans of their own */
    Runner          runners[ENGINE_RUNNERS]; /* shortest first, in each set */
    int             n_runners;
    RunnerSet       replies, prompts; /* the same set, if they are not apart */
    float          *logits;           /* [n_seq][n_vocab] of prompts, if apart: the plan of replies runs after theirs */
    RunTime         times[ENGINE_RUNNERS];
    size_t          repack_bytes; /* RpEngineMemory.repack */
    Drafter         drafter;
    Blocks          blocks;
    States          states;
    Windows         windows;
    Request        *waiting;          /* in the order of arrival */
    Request        *running[MAX_SEQ]; /* [n_running], in the order of the schedule */
    int             n_running;
    bool            rows[MAX_SEQ]; /* rows of the table that are in use */
    Column         *columns;       /* [step_tokens] of the present step */
    int32_t         n_columns;
    int32_t         n_replies; /* the first ones; the others are of prompts. All of them, if they are not apart */
    EngineEvent    *events;
    size_t          n_events, room_events, next_event;
    char           *texts; /* of the events */
    size_t          n_texts, room_texts;
    size_t          longest_piece; /* bytes of a token */
    size_t          pending, n_cancelled;
    size_t          needs_events, needs_texts; /* of a step with all pending requests */
    uint64_t        next_id;
    RpEngineStats   stats;
};

/* Blocks that n tokens take. */
static inline int32_t rp_engine_blocks_of(const RpEngineOptions *o, int32_t n) { return (n + o->block - 1) / o->block; }

/* The shortest runner of replies of n columns or more. */
static inline int rp_engine_runner(const RpEngine *e, int32_t n) {
    return rp_engine_find_runner(e->runners, e->replies, n);
}

/* ---- request.c ---- */

RP_NODISCARD RpStatus rp_request_new(RpEngine *e, const RpRequest *from, Request **out);
void                  rp_request_free(Request *r);

/* Tokens that it has still to run. */
static inline int32_t rp_request_left(const Request *r) { return r->n_tokens - r->n_done; }

/* Its positions that can be published: those that have the bits of a prompt. */
static inline int32_t rp_request_public(const Request *r) { return r->engine->apart ? r->n_prompt : r->n_tokens; }

/* Gives up the window blocks that no further token needs. */
void rp_request_leave_windows(Request *r);

/* Gives up its blocks and its state; n_done is 0 then. Blocks that it has published are kept. */
void rp_request_release(Request *r);

/* Puts an event into the list, for which rp_engine_add made room: *what with the figures of the request and the text
 * that was collected from offset `text` on; of a failure also rp_last_error(). */
void rp_request_event(Request *r, const RpEngineEvent *what, size_t text);

/* ---- queue.c ---- */

/* Puts a request into the queue, by its age. */
void rp_engine_queue(RpEngine *e, Request *r);

/* Takes a request out of the queue, or of those that run. */
void rp_engine_unlink(RpEngine *e, Request *r);

/* A running request gives up its blocks and waits. */
void rp_engine_preempt(RpEngine *e, Request *r);

/* Takes a request out of the engine and frees it. */
void rp_request_end(Request *r);

/* ---- schedule.c ---- */

/* Moves requests between waiting and running, and fills e->columns. Takes blocks for them. Errors of a draft model. */
RP_NODISCARD RpStatus rp_engine_schedule(RpEngine *e);

/* How many of the first n blocks of a path of published blocks a request can begin behind. */
int32_t rp_engine_reach(const RpEngine *e, const int32_t *path, int32_t n);

/* ---- step.c ---- */

/* Runs e->columns and samples. */
RP_NODISCARD RpStatus rp_engine_run(RpEngine *e);

/* ---- lookup.c ---- */

/* Guesses up to n tokens that follow tokens[0..n_tokens): what followed the latest earlier place of its longest end of
 * at most MAX_MATCH tokens. Returns how many. */
int32_t rp_draft_lookup(const int32_t *tokens, int32_t n_tokens, int32_t n, int32_t *out);

#endif
