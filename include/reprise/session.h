/* session.h - one context of a model: prefill, step, logits; and whole replies.
 *
 *   Session *s;
 *   RP_TRY(rp_session_open(model, &(SessionOptions){.n_ctx = 2048}, &s));
 *   RP_TRY(rp_session_prefill(s, ids, n, NULL, NULL));
 *   RP_TRY(rp_sampler_sample(sampler, rp_session_logits(s), &token));
 *   RP_TRY(rp_session_step(s, token));
 *
 * Results do not depend on how the tokens were split into calls, nor on the number of threads (I8). On a GPU the products of
 * chunks of 32 tokens and more are cuBLASLt's where there is one (REPRISE_BLAS), which rounds otherwise: a prefill in such
 * chunks is near to single steps but has other bits. On the CPU, and with REPRISE_BLAS=off, it has the same. A session is
 * used by one thread at a time; the model must outlive it.
 */
#ifndef REPRISE_SESSION_H
#define REPRISE_SESSION_H

#include "reprise/executor.h"
#include "reprise/model.h"
#include "reprise/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Session Session;

typedef struct SessionOptions {
    int32_t     n_ctx;         /* 0: what the model was trained for, at most 4096 */
    int         n_threads;     /* 0: REPRISE_THREADS, or one a core */
    int32_t     prefill_chunk; /* longest chunk of a prefill, 0: 256 */
    const char *passes;        /* as in rp_graph_optimize; NULL: REPRISE_PASSES */
    RpDtype     kv_type;       /* as in ModelGraphOptions */
    const char *device;        /* as in ExecutorOptions, with the next three */
    bool        require_cuda, require_graph;
    ExecMode    mode;
    bool        count_experts; /* for rp_session_expert_counts; a device then hands the ids out at each step, and tokens
                                  are drawn on the host */
} SessionOptions;

/* What a session with these options would allocate, before anything is. */
typedef struct SessionMemory {
    size_t weights, kv, arena, total; /* weights are the file's pages; on a GPU a copy of them */
    int32_t n_ctx;
} SessionMemory;

RP_NODISCARD RpStatus rp_session_memory(const Model *m, const SessionOptions *options, SessionMemory *out);

/* RP_E_NOMEM, with the figures and the context that would fit, when cache and arena (on a GPU the weights too) are larger
 * than the memory that the device has free: before anything is loaded. RP_E_NOT_AVAILABLE and RP_E_CUDA as
 * rp_executor_open. RP_E_ARG for a context below 1 or past what the model was trained for. */
RP_NODISCARD RpStatus rp_session_open(const Model *m, const SessionOptions *options, Session **out);
void                  rp_session_free(Session *s);

/* Called between chunks of a long prefill; return false to stop with RP_E_CANCELLED: what was done stays. */
typedef bool PrefillProgress(int64_t done, int64_t total, void *user);

/* Appends n >= 1 tokens; afterwards the logits are those after the last. RP_E_CONTEXT_FULL, with nothing changed, where
 * they do not fit; RP_E_ARG for an id outside the vocabulary, likewise. `progress` may be NULL. */
RP_NODISCARD RpStatus rp_session_prefill(Session *s, const int32_t *tokens, size_t n, PrefillProgress *progress,
                                         void *user);

/* Appends one token: a prefill of one. */
RP_NODISCARD RpStatus rp_session_step(Session *s, int32_t token);

/* Appends n tokens and calls back with the logits after each: i is its index in `tokens`. */
typedef void LogitsCallback(size_t i, const float *logits, void *user);
RP_NODISCARD RpStatus rp_session_score(Session *s, const int32_t *tokens, size_t n, LogitsCallback *callback,
                                       void *user);

/* Without a session of one's own: the logits after every token of `batch` sequences of `seq` ids, each from an empty
 * context. ids [batch][seq], logits f32 [batch][seq][n_vocab]. RP_E_ARG for sequences longer than the model was trained
 * for, and as rp_session_score. */
RP_NODISCARD RpStatus rp_model_logits(const Model *m, const int32_t *ids, size_t batch, size_t seq, float *logits);

/* f32 [n_vocab] after the latest token, NULL before the first; valid until the next call that appends. After a reply that
 * was stopped early while a device ran on by itself they are gone until the next token: NULL. */
const float *rp_session_logits(Session *s);

int32_t      rp_session_n_past(const Session *s); /* tokens in the context */
int32_t      rp_session_n_ctx(const Session *s);
int          rp_session_n_threads(const Session *s);
const Model *rp_session_model(const Session *s);

/* Forgets every token from position n_past on; the logits are gone until the next token. RP_E_ARG past the end. */
RP_NODISCARD RpStatus rp_session_rewind(Session *s, int32_t n_past);

/* How often each expert of a layer was chosen since the session was opened: [n_expert], by every token appended. NULL
 * for a layer without experts, and where SessionOptions.count_experts was not set. */
const uint64_t *rp_session_expert_counts(const Session *s, int layer);

/* What decodes, and how. */
ExecutorInfo rp_session_info(const Session *s);

/* The plan of the decode step, for reports. Borrowed. */
const ExecPlan *rp_session_decode_plan(const Session *s);

/* A whole reply: prefill, then sample until an end token, a stop string, the limit, or the end of the context. */
typedef enum StopReason { RP_STOP_END_TOKEN, RP_STOP_STRING, RP_STOP_LIMIT, RP_STOP_CONTEXT, RP_STOP_CANCELLED } StopReason;

typedef struct GenerateOptions {
    int32_t            max_tokens;   /* 0: until the context is full */
    const char *const *stop;         /* stop strings, never printed; the one that is complete first ends the reply */
    size_t             n_stop;
    bool               ignore_end;   /* go on after end tokens */
    bool               print_special;
    PrefillProgress   *prefill_progress;
    /* Whole UTF-8 characters as they come; return false to stop. Called at least once a token, with len 0 where there
     * is nothing to print (yet). Text that may turn out to be the beginning of a stop string waits. A model without a
     * tokenizer has no text: len is always 0 and stop strings never match. */
    bool (*on_text)(const char *text, size_t len, void *user);
    void      *user;
    TokenList *tokens; /* or NULL: every token drawn is appended, the end token too */
} GenerateOptions;

typedef struct GenerateResult {
    StopReason reason;
    int32_t    n_prompt, n_generated;      /* n_generated: tokens drawn, the end token too */
    double     prefill_s, decode_s;    /* decode_s: of the n_generated - 1 steps after the first token */
    double     first_token_s;          /* from the call to the first token */
} GenerateResult;

/* Appends the prompt to the session and draws a reply. Every token drawn is appended too, but not the last, as that
 * would cost a step: begin the next prompt with it to go on. The sampler accepts both. An empty prompt goes on from the
 * session's logits; RP_E_ARG where there are none. On RP_STOP_CONTEXT the reply ends where the context does.
 * RP_STOP_CANCELLED, with RP_OK, is the answer to a callback that returned false, during the prefill too: what was done
 * stays, text that waits is dropped. `result` is filled on failure too. */
RP_NODISCARD RpStatus rp_generate(Session *s, Sampler *sampler, const int32_t *prompt, size_t n_prompt,
                                  const GenerateOptions *options, GenerateResult *result);

const char *rp_stop_reason_name(StopReason reason);

#ifdef __cplusplus
}
#endif
#endif
