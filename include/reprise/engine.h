/* engine.h - many sequences of one model at a time. Each step of an engine runs the tokens of several requests in one
 * pass over the weights: one token of each reply, and parts of prompts. Their keys and values lie in blocks of one
 * cache (PagedAttention, Kwon et al. 2023, arXiv:2309.06180). Requests with a common prefix share its blocks, and the
 * blocks of finished requests stay until their room is needed. A step allocates nothing (I3).
 *
 *   RpEngine *e;  uint64_t id;  RpEngineEvent event;
 *   const RpEngineOptions options = {.n_ctx = 4096, .n_seq = 8};
 *   const RpRequest request = {.prompt = ids, .n_prompt = n, .sampler = sampler, .max_tokens = 64};
 *   RP_TRY(rp_engine_open(model, &options, &e));
 *   RP_TRY(rp_engine_add(e, &request, &id));
 *   while (rp_engine_pending(e) > 0) {
 *       RP_TRY(rp_engine_step(e));
 *       while (rp_engine_poll(e, &event)) fwrite(event.text, 1, event.n_text, stdout);
 *   }
 *   rp_engine_free(e);
 *
 * The tokens of a request depend on its prompt, its sampler and the model alone. They do not depend on other requests,
 * on how prompts are cut into steps, on cached prefixes, or on interruptions (I8). On the CPU they are those of
 * rp_generate with the same sampler. On a GPU they are those of an engine that runs the request alone: sessions compute
 * prompts in other plans there, with other last bits.
 *
 * Order: requests of a higher priority come first, then older ones. The priority of a waiting request rises by one
 * every 256 steps, so that no request waits for ever. If blocks run out, prefixes of finished requests are dropped, the
 * least recently used ones first. Then the last request in the order is preempted: it gives up its blocks, and is
 * computed again later.
 *
 * One thread at a time may use an engine. It borrows the model, which must outlive it. On a GPU its plans are captured
 * into graphs when it is opened, and a step is one launch for the replies and one for the prompts.
 */
#ifndef REPRISE_ENGINE_H
#define REPRISE_ENGINE_H

#include "reprise/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpEngine RpEngine;

typedef struct RpEngineOptions {
    int32_t n_ctx; /* positions of a sequence; 0: the model's training context, at most 4096 */
    int32_t n_seq; /* requests that run at the same time, 1 to 64; 0: 4 */
    int32_t
        cache_tokens;  /* positions of the KV cache, at least n_ctx; 0: of n_seq whole sequences. Rounded up to blocks.
                         Layers with a window have fewer, by n_seq, step_tokens and the window */
    int32_t     block; /* positions of a block, a multiple of 32; 0: 32 */
    int32_t     step_tokens; /* tokens of the longest step, 1 to 4096, not less than n_seq; 0: 256 */
    double      step_ms;     /* while replies are running, prompts are cut so that a step takes no longer than this, by
                                 the time that steps of this length took; 0: no limit */
    int         n_threads;   /* this and the following as in RpSessionOptions */
    const char *passes;
    RpDtype     kv_type;
    const char *device;
    size_t      state_bytes; /* recurrent states of prefixes and guesses, beside one for each of n_seq; 0: 256 MiB, with
                                an MTP layer at least n_mtp + 2 states for each of n_seq */
    const char *repack;      /* as in RpExecutorOptions, but NULL: REPRISE_REPACK, or "auto" with n_seq > 1 and
                                "codebook" with 1. Engines and sessions of a model share one copy
                                (RpEngineMemory.repack) */
    /* Or NULL: a smaller model of the same vocabulary, or an assistant of the model (RpModelInfo.assistant), which
     * guesses the next tokens in place of prompt lookup (RpRequest.n_draft). Borrowed as the model. Requests that are
     * longer than its context get no guesses. */
    const RpModel *draft;
    /* A model may have a layer that predicts further tokens (RpModelInfo.mtp). Without a draft model it guesses for all
     * requests, in place of prompt lookup: at most this number of tokens, 1 to 15, where RpRequest.n_draft is 0.
     * 0: 3; -1: it does not guess. */
    int32_t     n_mtp;
    bool        require_cuda, require_graph; /* as in RpSessionOptions, also for a draft model */
    bool        unused[2];                   /* 0 */
    const char *backend;                     /* as in RpExecutorOptions; it also runs a draft model and an MTP layer */
    double      watchdog_s;                  /* as in RpExecutorOptions */
} RpEngineOptions;

/* Bytes of an engine, as in RpSessionMemory, which also lists what is not counted. In addition these are not counted:
 * the plans, about 4 KB for each op of a plan, together some MB; about 50 bytes for each block and 4 for each position
 * of the cache; 32 bytes for each token of a step; for each pending request 5 bytes for each position of n_ctx, and
 * some KB for its events, with a grammar up to 100 KB. On a GPU also the logits of n_seq prompts on the host, f32
 * [n_vocab] each. */
typedef struct RpEngineMemory {
    size_t  weights, kv, arena, states, total;
    int32_t n_ctx, n_blocks, block; /* with the defaults filled in */
    int32_t n_states;               /* recurrent states; 0: the model has none */
    size_t
        draft; /* of a draft model: its weights, cache and intermediate tensors; of an MTP layer: all but its weights */
    int32_t n_window_blocks; /* blocks of the caches of layers with a window, part of kv; 0: no layer has one */
    int32_t unused;          /* 0 */
    size_t  repack; /* of the repacked copy of the weights, also of a draft model: with `repack` = "on" exactly,
                                with "auto" and "codebook" at most. Not part of `total`: the executors of a process share
                                it. RpExecutorInfo.repack_bytes is what was copied; a weight that a draft model
                                shares may count twice */
} RpEngineMemory;

/* Plans the engine without allocating its memory; `options` may be NULL. Errors as rp_engine_open, but memory and
 * `require_graph` are not checked. */
RP_API RP_NODISCARD RpStatus        rp_engine_memory_sized(const RpModel *m, const RpEngineOptions *options,
                                                           size_t options_bytes, RpEngineMemory *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_engine_memory(const RpModel *m, const RpEngineOptions *options,
                                                     RpEngineMemory *out) {
    return rp_engine_memory_sized(m, options, sizeof *options, out, sizeof *out);
}

/* `options` may be NULL for the defaults. The caller frees *out; on failure it is NULL. RP_E_ARG for an option out of
 * its range, which the text names, for a draft model of another vocabulary and for an assistant of another model;
 * RP_E_UNSUPPORTED for a draft model with recurrent states. RP_E_NOMEM if cache and arena exceed the free memory,
 * before anything is allocated. Further errors as rp_session_open. */
RP_API RP_NODISCARD RpStatus        rp_engine_open_sized(const RpModel *m, const RpEngineOptions *options,
                                                         size_t options_bytes, RpEngine **out);
RP_NODISCARD static inline RpStatus rp_engine_open(const RpModel *m, const RpEngineOptions *options, RpEngine **out) {
    return rp_engine_open_sized(m, options, sizeof *options, out);
}
RP_API void rp_engine_free(RpEngine *e); /* NULL is allowed. Requests that are not finished are dropped */

typedef struct RpRequest {
    const int32_t     *prompt; /* [n_prompt], at least one; copied */
    size_t             n_prompt;
    RpSampler         *sampler;    /* borrowed until the last event of the request or rp_engine_free; one for each */
    int32_t            max_tokens; /* 0: until the context is full */
    const char *const *stop;       /* stop strings as in RpGenerateOptions; copied */
    size_t             n_stop;
    bool               ignore_end, print_special; /* as in RpGenerateOptions */
    int32_t            priority;                  /* higher ones first; -1000 to 1000 */
    int32_t            n_draft; /* tokens that a step guesses at most, 0 to 15: the longest repetition of the latest
                                   tokens in the text so far is continued (prompt lookup), or a draft model, an
                                   assistant or an MTP layer continues it. 0: it guesses none, but an MTP layer `n_mtp`.
                                   A step computes the logits after all of them, and keeps those that the sampler would
                                   have drawn: the reply is the same. Guesses that cost more time than they save are
                                   left out */
    void              *user;
    /* Or NULL: borrowed like the sampler. The reply is held to its grammar, as in RpGenerateOptions. */
    RpMatcher *matcher;
    bool (*on_logprobs)(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top,
                        void *user); /* as in RpGenerateOptions; called by rp_engine_step */
    int32_t          n_logprobs;     /* 0 to n_vocab */
    RpForceToken    *force_token;    /* or NULL; as in RpGenerateOptions, called by rp_engine_step */
    RpTokenCallback *on_token;       /* the same; false ends the request with RP_STOP_CANCELLED, after this token */
    void            *token_user;     /* of these two */
    size_t n_seen; /* tokens at the beginning of the prompt that the sampler has accepted before, as in a chat that goes
                      on with it; at most n_prompt. It accepts the others */
} RpRequest;

/* Queues a request. The sampler accepts the prompt from n_seen on before it samples the first token, and never samples
 * the tokens that the model's file suppresses (rp_sampler_suppress). RP_E_ARG for an empty prompt, an id outside the
 * vocabulary, a sampler or a matcher for another vocabulary, or a number out of its range; RP_E_CONTEXT_FULL for a
 * prompt that does not leave room for one token; RP_E_NOMEM. Nothing has changed then. */
RP_API RP_NODISCARD RpStatus        rp_engine_add_sized(RpEngine *e, const RpRequest *request, size_t request_bytes,
                                                        uint64_t *id);
RP_NODISCARD static inline RpStatus rp_engine_add(RpEngine *e, const RpRequest *request, uint64_t *id) {
    return rp_engine_add_sized(e, request, sizeof *request, id);
}

/* Ends a request before its next step; its last event has RP_STOP_CANCELLED. RP_E_ARG for an id that is not pending. */
RP_API RP_NODISCARD RpStatus rp_engine_cancel(RpEngine *e, uint64_t id);

/* Requests that are queued or running. */
RP_API size_t rp_engine_pending(const RpEngine *e);

/* Runs one step, if a request is pending; then rp_engine_poll returns its events. A request that fails, for instance
 * because every logit is NaN, has an event with the error; the others go on. A failure of the device is returned: no
 * token of the step counts, and the step can be tried again. The next step drops events that were not polled. */
RP_API RP_NODISCARD RpStatus rp_engine_step(RpEngine *e);

typedef struct RpEngineEvent {
    uint64_t     id;
    void        *user;
    int32_t      token;         /* that was sampled; -1: none, at the end of a request that failed or was cancelled */
    const char  *text;          /* [n_text] whole UTF-8 characters, terminated; valid until the next step */
    size_t       n_text;        /* 0 while text is held back */
    bool         end;           /* the last event of the request */
    RpStatus     status;        /* at the end: RP_OK, or why it failed */
    const char  *error;         /* the text of the failure, "" if there is none; valid until the next step */
    RpStopReason reason;        /* at the end, if status is RP_OK */
    int32_t      n_prompt;      /* tokens of the prompt */
    int32_t      n_cached;      /* of these, tokens whose keys and values were found in the cache when it started */
    int32_t      n_generated;   /* sampled so far, the end token too */
    int32_t      n_drafted;     /* tokens that were guessed so far */
    int32_t      n_accepted;    /* and of these, those that the sampler drew */
    double       queued_s;      /* seconds from rp_engine_add to its first step; without one, to this event */
    double       first_token_s; /* seconds from rp_engine_add to the first token */
    double       total_s;       /* and to this event */
} RpEngineEvent;

/* The next event, in the order in which they came; false: there is none. */
RP_API bool        rp_engine_poll_sized(RpEngine *e, RpEngineEvent *out, size_t out_bytes);
static inline bool rp_engine_poll(RpEngine *e, RpEngineEvent *out) { return rp_engine_poll_sized(e, out, sizeof *out); }

/* Writes the cached prefix of a text to a file, from which rp_engine_restore reads it back: its tokens, their keys and
 * values, and the recurrent state after the last one, with checksums. The file fits only the same model and passes.
 * `tokens` are the text. The cache holds whole blocks. After a request it holds those of the prompt and of the reply
 * without its last token, on a GPU those of the prompt alone. With recurrent states the file has the blocks up to the
 * last one whose state is kept. For layers with a window it has the latest positions that the cache still has. If the
 * cache holds no such block, the file has no tokens. `note` is a text of the caller, or NULL for none. The file is
 * replaced as a whole, or stays as it was. RP_E_ARG for a file that is no context; RP_E_IO; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_engine_save(const RpEngine *e, const RpTokenList *tokens, const char *note,
                                            const char *path);

/* Puts the context of a file into the cache, as far as it has whole blocks: requests that begin with its tokens find
 * them there. With recurrent states it is put there only if its last token ends a block; of layers with a window the
 * file must have the window before the end of its last whole block. The file may also be of rp_session_save; on a
 * GPU its keys and values have other last bits than those that an engine computes, so that what begins with them has
 * other bits too. `tokens` are replaced by those of the file, *n_kept by how many of them, from the first on, the
 * cache has now, *note by the note, which the caller frees with free(). `n_kept` and `note` may be NULL.
 * RP_E_CONTEXT_FULL if the context is longer than n_ctx, or if requests that run leave too few blocks, window blocks
 * or states; other errors as rp_session_restore. Then *note is NULL, and requests go on as before. */
RP_API RP_NODISCARD RpStatus rp_engine_restore(RpEngine *e, const char *path, RpTokenList *tokens, int32_t *n_kept,
                                               char **note);

/* Sums since the engine was opened, and what it holds now. */
typedef struct RpEngineStats {
    uint64_t steps, tokens, padding; /* tokens that were run, and columns of steps that were empty */
    uint64_t generated;              /* tokens that were sampled */
    uint64_t prompt_tokens, cached;  /* of prompts; and of these, found in the cache */
    uint64_t preempted, evicted;     /* requests that gave their blocks up; blocks whose prefix was dropped */
    uint64_t drafted, accepted;      /* tokens */
    int32_t  running, waiting;       /* requests */
    int32_t  n_blocks, used, kept;   /* blocks: of the cache, of running requests, of finished ones */
    double   last_step_s;            /* seconds of the latest step */
    int32_t  last_step_tokens;       /* and its tokens */
    int32_t  n_ctx;                  /* positions of a sequence */
    int32_t  n_window_blocks, window_used, window_kept; /* n_blocks, used and kept of layers with a window; 0: no layer
                                                           has one */
} RpEngineStats;

RP_API void                 rp_engine_stats_sized(const RpEngine *e, RpEngineStats *out, size_t out_bytes);
static inline RpEngineStats rp_engine_stats(const RpEngine *e) {
    RpEngineStats stats;
    rp_engine_stats_sized(e, &stats, sizeof stats);
    return stats;
}

/* Device and launch mode of the step with one token, as rp_session_info. */
RP_API void                  rp_engine_info_sized(const RpEngine *e, RpExecutorInfo *out, size_t out_bytes);
static inline RpExecutorInfo rp_engine_info(const RpEngine *e) {
    RpExecutorInfo info;
    rp_engine_info_sized(e, &info, sizeof info);
    return info;
}

/* The plan of the step with one token, for reports. Borrowed: owned by the engine. NULL for NULL. */
RP_API const ExecPlan *rp_engine_step_plan(const RpEngine *e);

RP_API const RpModel *rp_engine_model(const RpEngine *e); /* borrowed */

#ifdef __cplusplus
}
#endif
#endif
