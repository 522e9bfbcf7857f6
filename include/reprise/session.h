/* session.h - one sequence of a model with its KV cache: prefill, step, logits, and whole replies. A session plans and
 * allocates everything when it is opened; afterwards nothing is allocated per token (I3).
 *
 *   RpSession *s;
 *   const RpSessionOptions options = {.n_ctx = 2048};
 *   RP_TRY(rp_session_open(model, &options, &s));
 *   RP_TRY(rp_session_prefill(s, ids, n, NULL, NULL));
 *   RP_TRY(rp_sampler_sample(sampler, rp_session_logits(s), &token));
 *   RP_TRY(rp_session_step(s, token));
 *   rp_session_free(s);
 *
 * Results depend neither on how the tokens were split into calls nor on the number of threads (I8). On a GPU, chunks of
 * five tokens and more are an exception: their products with quantised weights add in another order than single steps,
 * and cuBLASLt, if it is present (REPRISE_BLAS), computes products of 32 tokens and more with float weights, of 2048
 * and more with quantised weights on GPUs for data centers. A prefill in such chunks is close to single steps, but not
 * bit-identical.
 * One thread at a time may use a session. It borrows the model, which must outlive it.
 */
#ifndef REPRISE_SESSION_H
#define REPRISE_SESSION_H

#include "reprise/executor.h"
#include "reprise/grammar.h"
#include "reprise/model.h"
#include "reprise/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpSession RpSession;

typedef struct RpSessionOptions {
    int32_t     n_ctx;         /* positions of the KV cache; 0: the model's training context, at most 4096 */
    int         n_threads;     /* 0: REPRISE_THREADS, or one per core */
    int32_t     prefill_chunk; /* tokens of the longest chunk of a prefill, 1 to 4096; 0: 256, on a GPU 512 */
    const char *passes;        /* as in rp_graph_optimize; NULL: REPRISE_PASSES. Copied */
    RpDtype     kv_type;       /* type of the KV cache, as in RpModelGraphOptions */
    const char *device;        /* this and the next three as in RpExecutorOptions */
    bool        require_cuda, require_graph;
    RpExecMode  mode;
    bool        count_experts; /* fill rp_session_expert_counts. The ids of each step must then reach the host, so a GPU
                                  does not sample by itself: every token is one run */
    bool (*compile_progress)(size_t done, size_t total, void *user); /* this and the next as in RpExecutorOptions */
    void *user;
    size_t
        state_bytes; /* memory for recurrent states that are kept to rewind to, beside the current one; 0: 256 MiB, or
                           one state if that is larger */
    const char *repack;  /* as in RpExecutorOptions, but NULL: REPRISE_REPACK, or "codebook". Sessions of a model share
                           one copy */
    const char *backend; /* this and the next as in RpExecutorOptions */
    double      watchdog_s;
    /* Positions that layers with a window keep in their caches, so that the session can be rewound to those behind them
     * (rp_session_rewind). What a prefill needs is kept in any case. 0: all. All too on a GPU, in models with recurrent
     * layers, and if `passes` is not empty. */
    int32_t window_tokens;
    int32_t unused; /* 0 */
} RpSessionOptions;

/* Bytes that a session with these options would allocate. Not included: scratch memory of kernels; what the first
 * rp_session_score allocates, mostly logits f32 [n_vocab, min(n_ctx, 64)]; repacked weights (RpSessionOptions.repack,
 * RpExecutorInfo.repack_bytes); and on a GPU 8 bytes for each token of the vocabulary, to sample there. */
typedef struct RpSessionMemory {
    size_t  weights, kv, arena, total; /* weights: on the CPU those of the model, on a GPU a copy */
    int32_t n_ctx;                     /* with the default filled in */
    int32_t n_states;                  /* recurrent states, the current one included; 0: the model has none */
    size_t  states;                    /* bytes of all of them; part of the total, not of kv */
} RpSessionMemory;

/* Plans the session without allocating its memory; `options` may be NULL. Errors as rp_session_open, but memory and
 * device are not checked. */
RP_API RP_NODISCARD RpStatus        rp_session_memory_sized(const RpModel *m, const RpSessionOptions *options,
                                                            size_t options_bytes, RpSessionMemory *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_session_memory(const RpModel *m, const RpSessionOptions *options,
                                                      RpSessionMemory *out) {
    return rp_session_memory_sized(m, options, sizeof *options, out, sizeof *out);
}

/* `options` may be NULL for the defaults. The caller frees *out; on failure it is NULL. RP_E_NOMEM if KV cache and
 * arena (on a GPU also the weights) exceed the free memory of the device. This is checked before anything is loaded;
 * the text has the figures and the context that would fit. RP_E_ARG for a context below 1 or beyond the model's
 * training context, a bad chunk, or negative window_tokens. RP_E_UNSUPPORTED for a cache type that the model cannot
 * use. RP_E_NOT_AVAILABLE and RP_E_CUDA as rp_executor_open. */
RP_API RP_NODISCARD RpStatus        rp_session_open_sized(const RpModel *m, const RpSessionOptions *options,
                                                          size_t options_bytes, RpSession **out);
RP_NODISCARD static inline RpStatus rp_session_open(const RpModel *m, const RpSessionOptions *options,
                                                    RpSession **out) {
    return rp_session_open_sized(m, options, sizeof *options, out);
}
RP_API void rp_session_free(RpSession *s); /* NULL is allowed */

/* Called after each chunk of a prefill, in tokens. Return false to stop with RP_E_CANCELLED; the chunks already done
 * stay in the context. After the last chunk the answer is ignored. */
typedef bool RpPrefillProgress(int64_t done, int64_t total, void *user);

/* Appends n >= 1 tokens to the context; rp_session_logits then holds the logits after the last one. `progress` may be
 * NULL. RP_E_CONTEXT_FULL if they do not fit and RP_E_ARG for an id outside the vocabulary: nothing has changed then.
 * A failure of the device keeps the chunks before it. */
RP_API RP_NODISCARD RpStatus rp_session_prefill(RpSession *s, const int32_t *tokens, size_t n,
                                                RpPrefillProgress *progress, void *user);

/* Appends one token: rp_session_prefill with n = 1. */
RP_API RP_NODISCARD RpStatus rp_session_step(RpSession *s, int32_t token);

/* The logits, f32 [n_vocab], after tokens[i]. Borrowed: valid during the call. */
typedef void RpLogitsCallback(size_t i, const float *logits, void *user);

/* Appends n tokens and calls back with the logits after each of them, in order. The first call allocates the plan for
 * it. Errors as rp_session_prefill, and RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_session_score(RpSession *s, const int32_t *tokens, size_t n, RpLogitsCallback *callback,
                                              void *user);

/* The logits after every token of `batch` sequences, each from an empty context; opens a session for the call.
 * ids: [batch][seq]; logits: f32 [batch][seq][n_vocab], the caller's memory. Nothing is computed if batch or seq is 0.
 * RP_E_ARG if seq exceeds the model's training context; further errors as rp_session_open and rp_session_score. */
RP_API RP_NODISCARD RpStatus rp_model_logits(const RpModel *m, const int32_t *ids, size_t batch, size_t seq,
                                             float *logits);

/* The logits after the latest token, f32 [n_vocab]; owned by the session, valid until the next call that appends.
 * NULL before the first token, after a rewind, and after a reply that stopped early while a GPU was already computing
 * further tokens; the next token brings them back. */
RP_API const float *rp_session_logits(RpSession *s);

RP_API int32_t rp_session_n_past(const RpSession *s); /* tokens in the context: the next token gets this position */
RP_API int32_t rp_session_n_ctx(const RpSession *s);
RP_API int     rp_session_n_threads(const RpSession *s);
RP_API const RpModel *rp_session_model(const RpSession *s); /* borrowed */

/* Forgets every token at position n_past and later. If any was there, the logits are NULL until the next token.
 * RP_E_ARG if n_past is negative or beyond the tokens in the context. A model with recurrent states can go back only to
 * 0 and to positions whose state is kept: the ends of prefills of two tokens and more, as far as state_bytes has room
 * for them. RP_E_NOT_AVAILABLE for other positions, and for those at which layers with a window have lost the window,
 * because of window_tokens, or because the context was saved without it. Nothing has changed then. */
RP_API RP_NODISCARD RpStatus rp_session_rewind(RpSession *s, int32_t n_past);

/* The last position at or before n_past that rp_session_rewind accepts. 0 for NULL. */
RP_API int32_t rp_session_rewind_point(const RpSession *s, int32_t n_past);

/* Writes the context to a file, from which rp_session_restore reads it back instead of computing it again: the tokens,
 * their keys and values, and the recurrent state after the last one, with checksums, bound to the model and to the
 * passes. `tokens` are those of the context, all rp_session_n_past of them. `note` is a text of the caller, or NULL for
 * none. The file is replaced as a whole, or stays as it was. RP_E_ARG for another number of tokens, and for a file that
 * is no context; RP_E_STATE for an empty context, or without the recurrent state at its end; RP_E_IO; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_session_save(const RpSession *s, const RpTokenList *tokens, const char *note,
                                             const char *path);

/* Replaces the context by that of a file, also of rp_engine_save. The next token continues it, with the bits that it
 * had in the session that saved it, on the same device. The logits are NULL until then. `tokens` are replaced by those
 * of the file, *note by its note, which the caller frees with free(). `note` may be NULL. RP_E_ARG for a context of
 * another model, other adapters or other passes; RP_E_CONTEXT_FULL for one that is too long; RP_E_SHAPE for another
 * type of the KV cache; RP_E_FORMAT for a damaged file or one that is no context; RP_E_UNSUPPORTED for that of a later
 * version; RP_E_IO; RP_E_NOMEM. Then *note is NULL, and nothing else has changed. After a failure of the device the
 * context is empty. */
RP_API RP_NODISCARD RpStatus rp_session_restore(RpSession *s, const char *path, RpTokenList *tokens, char **note);

/* How often each expert of a layer was selected, over all tokens appended since the session was opened: [n_expert],
 * owned by the session. NULL for a layer without experts, or without RpSessionOptions.count_experts. */
RP_API const uint64_t *rp_session_expert_counts(const RpSession *s, int layer);

/* Device and launch mode of the decode step. `reason` also reports a fallback of a prefill plan, and `blas`
 * describes the prefill. The texts are owned by the session and valid as long as it is. */
RP_API void                  rp_session_info_sized(const RpSession *s, RpExecutorInfo *out, size_t out_bytes);
static inline RpExecutorInfo rp_session_info(const RpSession *s) {
    RpExecutorInfo info;
    rp_session_info_sized(s, &info, sizeof info);
    return info;
}

/* The plan of the decode step, for reports. Borrowed: owned by the session. */
RP_API const ExecPlan *rp_session_decode_plan(const RpSession *s);

/* ---- whole replies ----
 *
 *   static bool print(const char *text, size_t len, void *user) {
 *       (void)user;
 *       return fwrite(text, 1, len, stdout) == len;
 *   }
 *   RpGenerateResult r;
 *   const RpGenerateOptions options = {.max_tokens = 64, .on_text = print};
 *   RP_TRY(rp_generate(s, sampler, ids, n, &options, &r)); */

typedef enum RpStopReason {
    RP_STOP_END_TOKEN,
    RP_STOP_STRING,
    RP_STOP_LIMIT,
    RP_STOP_CONTEXT,
    RP_STOP_CANCELLED,
    RP_STOP_GRAMMAR /* the text of the grammar is complete */
} RpStopReason;

/* Called before each token. The token that it returns is appended as if it had been sampled; -1: the sampler samples.
 * It may set the mask of the sampler. It must use neither the session nor the engine, because a GPU may be computing
 * the logits meanwhile. */
typedef int32_t RpForceToken(void *user);

/* Receives each token, the end token too, before its text. Return false to stop. */
typedef bool RpTokenCallback(int32_t token, void *user);

typedef struct RpGenerateOptions {
    int32_t            max_tokens;       /* 0: until the context is full */
    const char *const *stop;             /* stop strings, never printed; the first that is complete ends the reply */
    size_t             n_stop;           /* each of them not empty. All pointers are borrowed for the call */
    bool               ignore_end;       /* go on after end tokens */
    bool               print_special;    /* print the text of control tokens */
    RpPrefillProgress *prefill_progress; /* or NULL; gets `user` */
    /* Or NULL: receives whole UTF-8 characters as they come, not terminated, valid during the call; return false to
     * stop. It is called at least once per token, with len 0 if there is nothing to print yet. Text that may turn out
     * to be the beginning of a stop string is held back. A model without a tokenizer has no text: len is always 0 and
     * stop strings never match. */
    bool (*on_text)(const char *text, size_t len, void *user);
    void        *user;   /* handed to all callbacks */
    RpTokenList *tokens; /* or NULL: every sampled token is appended, the end token too */
    /* Or NULL: receives the log probability of each sampled token, the end token too, and those of the n_logprobs most
     * probable ones (rp_logprobs), before its text; return false to stop. A GPU then copies the logits of each token to
     * the host, which samples. */
    bool (*on_logprobs)(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user);
    int32_t n_logprobs; /* 0 to n_vocab */
    /* Or NULL: the reply is one of the texts of its grammar. Each token is sampled among those that the matcher allows;
     * tokens that have to come next anyhow are run together, without sampling. The reply ends where the grammar allows
     * nothing more. Borrowed; it goes on from where it is, and has the tokens of the reply afterwards. Its vocabulary
     * must be that of the model. */
    RpMatcher       *matcher;
    RpForceToken    *force_token; /* or NULL; a GPU then has one launch for each token */
    RpTokenCallback *on_token;    /* or NULL */
    size_t n_seen; /* tokens at the beginning of the prompt that the sampler has accepted before, as those that a rewind
                      took out of the context; at most n_prompt. It accepts the others */
} RpGenerateOptions;

typedef struct RpGenerateResult {
    RpStopReason reason;                /* meaningful if rp_generate returned RP_OK */
    int32_t      n_prompt, n_generated; /* tokens; n_generated counts sampled tokens, the end token too */
    double       prefill_s, decode_s;   /* seconds; decode_s covers the n_generated - 1 steps after the first token */
    double       first_token_s;         /* seconds from the call to the first token */
    const char
        *host_sampling; /* why a GPU that can sample did not, so that each token's logits were copied to the host:
                                 * "log probabilities", a list as rp_sampler_host_only has it, ...; NULL: it did, or
                                 * cannot. Owned by the sampler */
} RpGenerateResult;

/* Appends the prompt to the context and samples a reply until an end token, a stop string, max_tokens or the end of the
 * context. Every sampled token is appended too except the last one, because appending costs a step: to continue, begin
 * the next prompt with it. The sampler accepts the prompt from n_seen on and the reply, and never samples the tokens
 * that the model's file suppresses (rp_sampler_suppress). An empty prompt, which may be NULL, continues from
 * rp_session_logits. `options` may be NULL for the defaults.
 * A callback that returns false ends the call with RP_OK and RP_STOP_CANCELLED, also during the prefill: tokens
 * appended so far stay, text held back is dropped.
 * RP_E_ARG for an empty prompt without logits, a negative max_tokens, an empty stop string, n_logprobs or n_seen out of
 * range, or a sampler for another vocabulary; further errors as rp_session_prefill and rp_sampler_sample. `result` is
 * filled on failure too. */
RP_API RP_NODISCARD RpStatus rp_generate_sized(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n_prompt,
                                               const RpGenerateOptions *options, size_t options_bytes,
                                               RpGenerateResult *result, size_t result_bytes);
RP_NODISCARD static inline RpStatus rp_generate(RpSession *s, RpSampler *sampler, const int32_t *prompt,
                                                size_t n_prompt, const RpGenerateOptions *options,
                                                RpGenerateResult *result) {
    return rp_generate_sized(s, sampler, prompt, n_prompt, options, sizeof *options, result, sizeof *result);
}

/* "end token", "stop string", "limit", "context is full", "cancelled" or "grammar"; "unknown" for any other number.
 * Static storage. */
RP_API const char *rp_stop_reason_name(RpStopReason reason);

#ifdef __cplusplus
}
#endif
#endif
