/* runner.h - the inside of an RpSession: its runners. A runner is the model's graph for a fixed number of
 * tokens, with its plan and its executor. */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include "model/model.h"
#include "model/slots.h"

#include "reprise/session.h"

enum { MAX_RUNNERS = 12, RECENT_TOKENS = 1024, SESSION_BLOCK = 32 };

typedef struct Runner {
    RpModelGraphOptions o;
    ComputeGraph       *graph;
    ExecPlan           *plan;
    RpExecutor         *executor;
    int32_t            *tokens, *pos, *out_rows; /* inputs; NULL in a graph that samples */
    int32_t            *reach;                   /* input of an assistant, else NULL */
    int32_t            *slots, *starts;          /* inputs; NULL without recurrent states; starts: with n_seq */
    int32_t        *kv_rows, *seq, *table; /* inputs with n_seq, else NULL; also if all layers have windows, but seq */
    int32_t        *window_rows, *window_table; /* inputs of a graph with n_window_blocks, else NULL */
    float          *logits;                     /* [n_out][n_vocab] */
    float          *hidden, *next_hidden;       /* as in RpModelGraphOptions, or NULL */
    const int32_t **experts;                    /* [n_layer], each NULL or ids [n_expert_used, n_tok]; or NULL */
    RpColumns       columns;                    /* RpExecutorOptions.columns */
    const TensorNode *step, *extra; /* the step state of a graph that samples and its RpSampleExtra, or NULL */
} Runner;

struct RpSession {
    const RpModel *model;
    Runner         runners[MAX_RUNNERS]; /* longest chunk first; the last has one token */
    int            n_runners;
    Runner         score;    /* logits of every token; opened when first used */
    Runner         sampling; /* samples on the device; executor NULL where the host samples */
    StateSlots     slots;
    int32_t        n_published; /* rp_session_publish */
    char          *passes;
    int32_t        n_ctx, n_past;
    int32_t        window_from; /* the first position of a restored context that layers with a window have */
    int32_t   n_windows; /* blocks of the caches of layers with a window, taken by turns; 0: they have all positions */
    int32_t   n_written; /* with n_windows: positions that were written since the context was empty */
    RpDtype   kv_type;
    float    *logits;           /* of the latest token; NULL: none, or not fetched yet */
    bool      logits_on_device; /* they lie in the output of `sampling` */
    uint64_t *expert_counts;    /* [n_layer][n_expert], or NULL */
    bool      replying, held;   /* held: by rp_session_reply_held */
    bool      has_extra;        /* the RpSampleExtra of `sampling` is not zeros */
    char      reason[320];      /* why a runner does not run as asked; "": none */
    int32_t   end_tokens[RP_REPLY_MAX_END];
    size_t    n_end_tokens;
};

/* Blocks of the tables that n positions of a session take. */
static inline int32_t rp_session_blocks(int32_t n) { return (n + SESSION_BLOCK - 1) / SESSION_BLOCK; }

/* The first position that layers with a window still have. Block b of the positions lies in block b % n_windows of
 * their caches. */
int32_t rp_session_window_from(const RpSession *s);

/* For speculation: later calls of rp_session_prefill and rp_session_score publish the recurrent states after each of
 * their last k positions, as far as there are slots. The session can be rewound to each of them until its next run. The
 * kernels write these states in the same run; nothing is computed again. 0, the default: only the end of a prompt is
 * kept. While k is not 0 it is published like the others, so that speculation displaces no state that is kept. */
void rp_session_publish(RpSession *s, int32_t k);

/* The next shorter chunk of tokens: a quarter while that is at least 16, then 8, 4, 2 and 1.
 * 4096 -> 1024 -> 256 -> 64 -> 16 -> 8 -> 4 -> 2 -> 1, which is 9 of the MAX_RUNNERS. 512 is followed by 256. */
int32_t rp_runner_next_chunk(int32_t n);

/* True if `left` tokens nearly fill a chunk of n; the rest of it is padding. The time of a long chunk grows with its
 * length, so at most 1/8 may be padding. A short one mostly waits for the weights, so that up to half may be.
 * Example: 300 tokens are run as 256, 16, 16 and 12 of 16. 64 is skipped because 44 < 64 * 7/8. */
bool rp_runner_is_filled(int32_t n, size_t left);

/* Fills the defaults of a context and of the longest chunk of a prefill in, where they are 0, and checks their limits
 * (I11). A chunk is not longer than the context. The device, as in RpExecutorOptions, decides the default of the
 * chunk. RP_E_ARG. */
RP_NODISCARD RpStatus rp_runner_check_lengths(const RpModel *m, const char *device, bool require_cuda, int32_t *n_ctx,
                                              int32_t *prefill_chunk);

/* The device that plans are made for: a backend runs them on the CPU. */
static inline const char *rp_runner_device(const char *device, const char *backend) {
    return backend != NULL ? "cpu" : device;
}

/* RpExecutorOptions.repack: the choice of the caller, else REPRISE_REPACK, else `otherwise`. */
const char *rp_runner_repack(const char *given, const char *otherwise);

/* Plan, then open. `m` and the executor that options->share names must outlive the runner; it owns all else.
 * Closing a zeroed runner is legal, as is closing one that failed to open. */
RP_NODISCARD RpStatus rp_runner_plan(Runner *r, const RpModel *m, const RpModelGraphOptions *o, const char *passes);
RP_NODISCARD RpStatus rp_runner_open(Runner *r, const RpModel *m, const RpExecutorOptions *options);
void                  rp_runner_close(Runner *r);

/* Arena and states of n planned runners that share them: of each the largest. */
RpPlanMemory rp_runner_memory(const Runner *r, int n);

#endif
