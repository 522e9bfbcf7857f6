/* Sessions: one context of a model, run by graphs of a few fixed lengths.
 *
 * The shapes of a graph are fixed (I2), so a session plans one runner for each chunk length, for
 * prefill_chunk 256:
 *     runners[]    256, 64, 16, 8, 4, 2, 1 tokens     logits of the last token
 *     score        64 tokens                          logits of every token; opened when first used
 *     sampling     1 token                            samples on the device; opened there only
 * They share one device, its threads, weights and arena, and by name the KV cache:
 *     slot p of state "k.<layer>" and "v.<layer>" holds position p;  slots p >= n_past are stale
 * and recurrent states, a slot for each number of tokens whose state is kept (slots.h).
 * A run changes tokens, positions and output rows only, which are tensors (I4). It allocates nothing (I3). */
#include "model/reply.h"

#include "base/argument.h"

#include "base/sized.h"
#include "base/trace/trace.h"
#include "reprise/device.h"
#include "reprise/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCORE_CHUNK = 64 };

static const size_t DEFAULT_STATE_BYTES = (size_t)256 << 20;

/* Copies the options to *w, fills the defaults in and checks every limit (I11). */
static RpStatus check_options(const RpModel *m, const RpSessionOptions *o, RpSessionOptions *w) {
    if (m->config.bidirectional)
        return rp_fail(RP_E_UNSUPPORTED, "%s makes embeddings of texts (reprise embed, embed.h): it has no next token",
                       rp_model_info(m)->arch);
    *w = *o;
    if (w->window_tokens < 0)
        return rp_fail(RP_E_ARG, "window_tokens of a session is %d: must not be negative", w->window_tokens);
    if (w->passes == NULL) w->passes = rp_option(RP_OPT_PASSES);
    w->repack = rp_runner_repack(w->repack, "codebook");
    return rp_runner_check_lengths(m, rp_runner_device(w->device, w->backend), w->require_cuda, &w->n_ctx,
                                   &w->prefill_chunk);
}

/* The slots of recurrent states: the current one, and those that state_bytes has room for. */
static int32_t count_slots(const RpModel *m, const RpSessionOptions *w) {
    const size_t of_slot = rp_config_state_bytes(&m->config);
    if (of_slot == 0) return 0;
    size_t n = (w->state_bytes > 0 ? w->state_bytes : DEFAULT_STATE_BYTES) / of_slot;
    if (n < 1 && w->state_bytes == 0) n = 1;
    return n < MAX_SLOTS - 1 ? 1 + (int32_t)n : MAX_SLOTS;
}

/* Blocks of the caches of layers with a window; 0: they have all positions. The first token of a chunk needs the window
 * before it while the last one is stored, and both ends lie inside of a block. A GPU samples in a graph without
 * tables. */
static int32_t count_windows(const RpModel *m, const RpSessionOptions *w) {
    const int32_t  chunk = w->prefill_chunk > SCORE_CHUNK ? w->prefill_chunk : SCORE_CHUNK;
    const int32_t  least = rp_session_blocks((m->config.window < w->n_ctx ? m->config.window : w->n_ctx) + chunk) + 1;
    const int32_t  asked = rp_session_blocks(w->window_tokens < w->n_ctx ? w->window_tokens : w->n_ctx);
    const int32_t  n     = asked > least ? asked : least;
    RpDeviceMemory d     = {0};
    if (w->window_tokens == 0 || w->passes[0] != '\0') return 0; /* tables need the pass `attention` */
    if (!rp_config_has_windows(&m->config) || rp_config_state_bytes(&m->config) > 0) return 0;
    const RpStatus st = rp_device_memory(rp_runner_device(w->device, w->backend), w->require_cuda, &d);
    return st == RP_OK && !d.is_own && n < rp_session_blocks(w->n_ctx) ? n : 0;
}

/* The options that the graphs of all runners share; n_tok and n_out differ. */
static RpModelGraphOptions shape_of(const RpSession *s) {
    RpModelGraphOptions o = {
        .n_ctx = s->n_ctx, .kv_type = s->kv_type, .expert_ids = s->expert_counts != NULL, .n_states = s->slots.n};
    if (s->n_windows == 0) return o;
    o.n_seq           = 1;
    o.block           = SESSION_BLOCK;
    o.n_blocks        = rp_session_blocks(s->n_ctx);
    o.n_window_blocks = s->n_windows;
    return o;
}

/* Builds graph and plan of every chunk length, longest first. Nothing is allocated for running them yet. */
static RpStatus plan_runners(RpSession *s, const RpSessionOptions *w) {
    RpModelGraphOptions o = shape_of(s);
    for (o.n_tok = w->prefill_chunk;; o.n_tok = rp_runner_next_chunk(o.n_tok)) {
        RP_TRY(rp_runner_plan(&s->runners[s->n_runners++], s->model, &o, w->passes));
        if (o.n_tok == 1) return RP_OK;
    }
}

/* Arena and KV cache are shared, so the largest of each counts once. RpSessionMemory says what is not included. */
static RpSessionMemory memory_of(const RpSession *s) {
    const RpPlanMemory p = rp_runner_memory(s->runners, s->n_runners);
    RpSessionMemory    m = {
           .n_ctx = s->n_ctx, .weights = rp_model_info(s->model)->weight_bytes, .kv = p.state, .arena = p.arena};
    m.n_states = s->slots.n;
    m.states   = (size_t)s->slots.n * rp_config_state_bytes(&s->model->config);
    m.total    = m.weights + m.kv + m.arena;
    m.kv -= m.states;
    return m;
}

/* Refuses a context that does not fit, before anything is allocated. On the CPU the weights are pages of the
 * mapped file and need no room. A device with separate memory needs a copy of them. */
static RpStatus check_memory(const RpSession *s, const RpSessionOptions *w) {
    const RpSessionMemory m = memory_of(s);
    RpDeviceMemory        d;
    RP_TRY(rp_device_memory(rp_runner_device(w->device, w->backend), w->require_cuda, &d));
    const size_t weights = d.is_own ? m.weights : 0, fixed = m.arena + m.states + weights;
    /* On the CPU 0 means that the free memory is not known. */
    if ((d.free_bytes == 0 && !d.is_own) || m.kv + fixed <= d.free_bytes) return RP_OK;
    const double row      = (double)m.kv / (double)m.n_ctx; /* bytes per position */
    const double fits     = fixed < d.free_bytes ? (double)(d.free_bytes - fixed) / row : 0.0;
    char         also[96] = "";
    int          n_also   = 0;
    if (m.states > 0) n_also = snprintf(also, sizeof also, ", %.1f GB for recurrent states", (double)m.states / 1e9);
    if (weights > 0)
        snprintf(also + n_also, sizeof also - (size_t)n_also, ", %.1f GB for the weights", (double)weights / 1e9);
    return rp_fail(RP_E_NOMEM,
                   "a context of %d tokens takes %.1f GB for the KV cache%s and %.1f GB for intermediate "
                   "tensors, %.1f GB are free on %s; about %lld tokens would fit",
                   m.n_ctx, (double)m.kv / 1e9, also, (double)m.arena / 1e9, (double)d.free_bytes / 1e9, d.id,
                   (long long)fits);
}

/* A session with its plans but without executors. *w gets the options with defaults. */
static RpStatus plan_session(const RpModel *m, const RpSessionOptions *options, RpSessionOptions *w, RpSession **out) {
    *out = NULL;
    RP_TRY(check_options(m, options, w));
    RpSession *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a session");
    s->model                    = m;
    s->n_ctx                    = w->n_ctx;
    s->kv_type                  = w->kv_type;
    s->slots.n                  = count_slots(m, w);
    s->n_windows                = count_windows(m, w);
    s->passes                   = strdup(w->passes);
    const RpModelInfo *info     = rp_model_info(m);
    const size_t       n_counts = w->count_experts ? (size_t)info->n_layer * (size_t)info->n_expert : 0;
    if (n_counts > 0) s->expert_counts = calloc(n_counts, sizeof *s->expert_counts);
    RpStatus st = s->passes != NULL && (n_counts == 0 || s->expert_counts != NULL)
                      ? plan_runners(s, w)
                      : rp_fail(RP_E_NOMEM, "out of memory for a session");
    if (st != RP_OK) {
        rp_session_free(s);
        return st;
    }
    *out = s;
    return RP_OK;
}

RpStatus rp_session_memory_sized(const RpModel *m, const RpSessionOptions *options, size_t options_bytes,
                                 RpSessionMemory *out, size_t out_bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(out, "out");

    RpSession       *s;
    RpSessionOptions o, w;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpSessionOptions"));
    RP_TRY(plan_session(m, &o, &w, &s));
    const RpSessionMemory memory = memory_of(s);
    rp_sized_out(out, out_bytes, &memory, sizeof memory);
    rp_session_free(s);
    return RP_OK;
}

/* The runner that samples on the device, so that only token ids return to the host. The CPU samples on the
 * host, and so does a session that counts experts: their ids must reach the host after each step. So does one with
 * recurrent states, as the device may run past the end of a reply, and states cannot go back. */
static RpStatus open_sampling(RpSession *s, const RpSessionOptions *w, RpExecutorOptions *o) {
    const RpModelGraphOptions graph = {
        .n_tok = 1, .n_ctx = w->n_ctx, .kv_type = w->kv_type, .draws = true, .n_recent = RECENT_TOKENS};
    if (strcmp(rp_session_info(s).device, "cpu") == 0 || w->count_experts || s->slots.n > 0) return RP_OK;
    RP_TRY(rp_runner_plan(&s->sampling, s->model, &graph, s->passes));
    return rp_runner_open(&s->sampling, s->model, o);
}

/* The first executor chooses the device and allocates; its chunk is the longest. All others share with it. */
static RpStatus open_runners(RpSession *s, const RpSessionOptions *w) {
    RpExecutorOptions o = {.n_threads        = w->n_threads,
                           .device           = w->device,
                           .require_cuda     = w->require_cuda,
                           .require_graph    = w->require_graph,
                           .mode             = w->mode,
                           .compile_progress = w->compile_progress,
                           .user             = w->user,
                           .repack           = w->repack,
                           .backend          = w->backend,
                           .watchdog_s       = w->watchdog_s};
    for (int i = 0; i < s->n_runners; i++) {
        o.share = i > 0 ? s->runners[0].executor : NULL;
        if (i > 0) o.backend = NULL; /* that of the first */
        RP_TRY(rp_runner_open(&s->runners[i], s->model, &o));
    }
    o.share   = s->runners[0].executor;
    o.backend = NULL;
    return open_sampling(s, w, &o);
}

/* Keeps the first reason for which a runner does not run as asked. rp_session_info reports that of the decode
 * step itself; without this, a fallback of a prefill chunk alone would be silent (I10). */
static void find_reason(RpSession *s) {
    for (int i = 0; i < s->n_runners && s->reason[0] == '\0'; i++) {
        const RpExecutorInfo info = rp_executor_info(s->runners[i].executor);
        const int32_t        n    = s->runners[i].o.n_tok;
        if (info.reason[0] == '\0') continue;
        if (info.fell_back)
            snprintf(s->reason, sizeof s->reason, "%s", info.reason);
        else
            snprintf(s->reason, sizeof s->reason, "prefill of %d token%s: %s", n, n > 1 ? "s" : "", info.reason);
    }
}

/* The ids that end a reply, for the loop on the device. Beyond RP_REPLY_MAX_END only the host checks. */
static void find_end_tokens(RpSession *s) {
    const RpTokenizer *tk = rp_model_tokenizer(s->model);
    for (int32_t id = 0; tk != NULL && id < rp_model_info(s->model)->n_vocab; id++)
        if (rp_tokenizer_is_end(tk, id) && s->n_end_tokens < RP_REPLY_MAX_END) s->end_tokens[s->n_end_tokens++] = id;
}

RpStatus rp_session_open_sized(const RpModel *m, const RpSessionOptions *options, size_t options_bytes,
                               RpSession **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");

    RpSession       *s;
    RpSessionOptions o, w;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpSessionOptions"));
    RP_TRY(plan_session(m, &o, &w, &s));
    RpStatus st = check_memory(s, &w);
    if (st == RP_OK) st = open_runners(s, &w);
    if (st != RP_OK) {
        rp_session_free(s);
        return st;
    }
    if (s->sampling.executor != NULL) find_end_tokens(s);
    find_reason(s);
    *out = s;
    return RP_OK;
}

void rp_session_free(RpSession *s) {
    if (s == NULL) return;
    rp_runner_close(&s->sampling);
    rp_runner_close(&s->score);
    for (int i = s->n_runners - 1; i >= 0; i--)
        rp_runner_close(&s->runners[i]); /* runners[0] last: the others share it */
    free(s->expert_counts);
    free(s->passes);
    free(s);
}

/* Checks before anything is changed, so that a refused call leaves the session as it was. */
static RpStatus check_append(const RpSession *s, const int32_t *tokens, size_t n) {
    const int32_t n_vocab = rp_model_info(s->model)->n_vocab;
    if (n == 0) return rp_fail(RP_E_ARG, "no tokens to append");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "token %d at %zu is outside of the vocabulary of %d", tokens[i], i, n_vocab);
    if (s->slots.n > 0 && s->n_past > 0 && rp_slots_find(&s->slots, s->n_past) < 0)
        return rp_fail(RP_E_STATE, "the recurrent state after %d tokens was lost by a failed run: rewind to %d",
                       s->n_past, rp_slots_reach(&s->slots, s->n_past));
    if (n > (size_t)(s->n_ctx - s->n_past))
        return rp_fail(RP_E_CONTEXT_FULL, "%zu tokens do not fit: the context holds %d of %d already", n, s->n_past,
                       s->n_ctx);
    return RP_OK;
}

/* The longest runner that the `left` tokens nearly fill; the rest of it is padding. */
static Runner *choose_runner(RpSession *s, size_t left) {
    int i = 0;
    while (i < s->n_runners - 1 && !rp_runner_is_filled(s->runners[i].o.n_tok, left)) i++;
    return &s->runners[i];
}

/* experts[l] holds ids [n_expert_used, n_tok] of the latest run; those of padding tokens come last and are
 * not counted. The ids are data that a graph computed, so they are checked before they are an index. */
static void count_experts(RpSession *s, const Runner *r, int32_t n) {
    const RpModelInfo *info = rp_model_info(s->model);
    for (int l = 0; l < info->n_layer && r->experts != NULL; l++)
        for (int32_t i = 0; i < n * info->n_expert_used && r->experts[l] != NULL; i++) {
            const int32_t id = r->experts[l][i];
            if (id >= 0 && id < info->n_expert) s->expert_counts[(int64_t)l * info->n_expert + id]++;
        }
}

void rp_session_publish(RpSession *s, int32_t k) { s->n_published = k; }

/* Names the slot that the recurrent state is read from, and the slots that the states after the last tokens of a run
 * of n are written to: after the last one, and after those that are published. `left` tokens of the same call follow in
 * later runs. Returns the number of states that are written. A run that fails leaves nothing in their slots. */
static int32_t name_slots(RpSession *s, const Runner *r, int32_t n, int64_t left) {
    if (s->slots.n == 0) return 0;
    int32_t to[MAX_SLOTS], from = rp_slots_find(&s->slots, s->n_past);
    int64_t m = s->n_published - left;
    if (m > n) m = n;
    if (m > s->slots.n) m = s->slots.n;
    if (m < 1) m = 1;
    rp_slots_take_last(&s->slots, from, n + left < s->n_published, (int32_t)m, to);
    r->slots[0] = from;
    for (int32_t i = 0; i < r->o.n_tok; i++) r->slots[1 + i] = i < n && i >= n - m ? to[i - (n - m)] : -1;
    return (int32_t)m;
}

int32_t rp_session_window_from(const RpSession *s) {
    const int32_t block = rp_session_blocks(s->n_written) - s->n_windows; /* the first that is still there */
    if (s->n_windows == 0 || block * SESSION_BLOCK < s->window_from) return s->window_from;
    return block * SESSION_BLOCK;
}

/* The places of n tokens: all positions in their order, and those of layers with a window by turns. */
static void put_places(RpSession *s, const Runner *r, int32_t n) {
    const int32_t n_blocks = rp_session_blocks(s->n_ctx), of_window = s->n_windows * SESSION_BLOCK;
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        if (r->kv_rows != NULL) r->kv_rows[i] = r->pos[i];
        r->window_rows[i] = i < n ? r->pos[i] % of_window : -1;
        r->seq[i]         = 0;
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        if (r->table != NULL) r->table[b] = b;
        r->window_table[b] = b % s->n_windows;
    }
    if (s->n_written < s->n_past + n) s->n_written = s->n_past + n;
}

/* Runs n tokens from position n_past on. Position -1 marks padding: it stores nothing and attends to nothing.
 * Logits are computed for the last token, or for every token where the runner has as many outputs. `left` tokens of the
 * same call follow in later runs. */
static RpStatus run(RpSession *s, Runner *r, const int32_t *tokens, int32_t n, size_t left) {
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        r->pos[i]    = i < n ? s->n_past + i : -1;
    }
    for (int32_t i = 0; i < r->o.n_out; i++) r->out_rows[i] = r->o.n_out == 1 ? n - 1 : i;
    if (s->n_windows > 0) put_places(s, r, n);
    const int32_t m     = name_slots(s, r, n, (int64_t)left);
    s->logits           = NULL;
    s->logits_on_device = false;
    RP_TRY(rp_executor_run(r->executor));
    count_experts(s, r, n);
    s->n_past += n;
    for (int32_t i = n - m; i < n; i++) rp_slots_put(&s->slots, r->slots[1 + i], s->n_past - (n - 1 - i));
    return RP_OK;
}

static RpStatus prefill(RpSession *s, const int32_t *tokens, size_t n, RpPrefillProgress *progress, void *user) {
    RP_TRY(check_append(s, tokens, n));
    rp_slots_forget_loose(&s->slots, rp_slots_find(&s->slots, s->n_past));
    for (size_t done = 0; done < n;) {
        Runner       *r    = choose_runner(s, n - done);
        const int32_t take = n - done < (size_t)r->o.n_tok ? (int32_t)(n - done) : r->o.n_tok;
        RP_TRY(run(s, r, tokens + done, take, n - done - (size_t)take));
        s->logits = r->logits;
        done += (size_t)take;
        if (progress != NULL && !progress((int64_t)done, (int64_t)n, user) && done < n)
            return rp_fail(RP_E_CANCELLED, "prefill was stopped after %zu of %zu tokens", done, n);
    }
    if (n > 1 && s->n_published == 0)
        rp_slots_keep(&s->slots, s->n_past); /* the end of a prompt: a place to come back to */
    return RP_OK;
}

RpStatus rp_session_prefill(RpSession *s, const int32_t *tokens, size_t n, RpPrefillProgress *progress, void *user) {
    RP_NOT_NULL(s, "s");
    if (n > 0) RP_NOT_NULL(tokens, "tokens");

    const RpTraceRun trace = rp_trace_run("prefill", n);
    return rp_trace_run_end(&trace, prefill(s, tokens, n, progress, user));
}

RpStatus rp_session_step(RpSession *s, int32_t token) {
    RP_NOT_NULL(s, "s");

    const bool       own   = rp_trace_on() && !rp_trace_in_run();
    const RpTraceRun trace = own ? rp_trace_run("decode", 1) : (RpTraceRun){0};
    return rp_trace_run_end(&trace, prefill(s, &token, 1, NULL, NULL));
}

static RpStatus score(RpSession *s, const int32_t *tokens, size_t n, RpLogitsCallback *callback, void *user) {
    const size_t n_vocab = (size_t)rp_model_info(s->model)->n_vocab;
    RP_TRY(check_append(s, tokens, n));
    if (s->score.executor == NULL) { /* allocates, on the first call only */
        const RpExecutorOptions o     = {.share = s->runners[0].executor};
        RpModelGraphOptions     graph = shape_of(s);
        graph.n_tok = graph.n_out = s->n_ctx < SCORE_CHUNK ? s->n_ctx : SCORE_CHUNK;
        RpStatus st               = rp_runner_plan(&s->score, s->model, &graph, s->passes);
        if (st == RP_OK) st = rp_runner_open(&s->score, s->model, &o);
        if (st != RP_OK) {
            rp_runner_close(&s->score);
            return st;
        }
    }
    rp_slots_forget_loose(&s->slots, rp_slots_find(&s->slots, s->n_past));
    for (size_t done = 0; done < n;) {
        const int32_t take = n - done < (size_t)s->score.o.n_tok ? (int32_t)(n - done) : s->score.o.n_tok;
        RP_TRY(run(s, &s->score, tokens + done, take, n - done - (size_t)take));
        for (int32_t i = 0; i < take; i++) callback(done + (size_t)i, s->score.logits + (size_t)i * n_vocab, user);
        s->logits = s->score.logits + (size_t)(take - 1) * n_vocab;
        done += (size_t)take;
    }
    if (n > 1 && s->n_published == 0) rp_slots_keep(&s->slots, s->n_past);
    return RP_OK;
}

RpStatus rp_session_score(RpSession *s, const int32_t *tokens, size_t n, RpLogitsCallback *callback, void *user) {
    RP_NOT_NULL(s, "s");
    if (n > 0) RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(callback, "callback");

    const RpTraceRun trace = rp_trace_run("score", n);
    return rp_trace_run_end(&trace, score(s, tokens, n, callback, user));
}

/* After a reply that was sampled on the device the logits are still there; they are copied when asked for. */
const float *rp_session_logits(RpSession *s) {
    if (s == NULL) return NULL;
    if (s->logits != NULL || !s->logits_on_device) return s->logits;
    const Runner     *r    = &s->runners[s->n_runners - 1];
    const TensorNode *node = rp_graph_find(s->sampling.graph, "logits");
    s->logits_on_device    = false;
    if (rp_executor_get(s->sampling.executor, node, r->logits,
                        (size_t)rp_model_info(s->model)->n_vocab * sizeof *r->logits) == RP_OK)
        s->logits = r->logits;
    return s->logits;
}

int32_t rp_session_n_past(const RpSession *s) { return s != NULL ? s->n_past : 0; }
int32_t rp_session_n_ctx(const RpSession *s) { return s != NULL ? s->n_ctx : 0; }
int rp_session_n_threads(const RpSession *s) { return s != NULL ? rp_executor_n_threads(s->runners[0].executor) : 0; }
const RpModel *rp_session_model(const RpSession *s) { return s != NULL ? s->model : NULL; }

/* Whether layers with a window have all positions that a token behind n_past tokens attends to. */
static bool has_window(const RpSession *s, int32_t n_past) {
    const int32_t from = rp_session_window_from(s);
    return from == 0 || n_past - s->model->config.window + 1 >= from;
}

int32_t rp_session_rewind_point(const RpSession *s, int32_t n_past) {
    if (s == NULL || n_past <= 0) return 0;
    if (n_past > s->n_past) n_past = s->n_past;
    if (s->slots.n > 0) n_past = rp_slots_reach(&s->slots, n_past);
    return has_window(s, n_past) ? n_past : 0;
}

/* Stale slots of the KV cache need no clearing: attention reads slots 0..pos[t] only, and each of them is
 * written again before a token attends to it. */
RpStatus rp_session_rewind(RpSession *s, int32_t n_past) {
    RP_NOT_NULL(s, "s");

    if (n_past < 0 || n_past > s->n_past)
        return rp_fail(RP_E_ARG, "rewind to %d: the context holds %d tokens", n_past, s->n_past);
    const int32_t point = rp_session_rewind_point(s, n_past);
    if (point != n_past && !has_window(s, n_past))
        return rp_fail(RP_E_NOT_AVAILABLE,
                       "rewind to %d: layers with a window have the positions from %d on, the nearest before it is %d",
                       n_past, rp_session_window_from(s), point);
    if (point != n_past)
        return rp_fail(RP_E_NOT_AVAILABLE,
                       "rewind to %d: the recurrent state is not kept there, the nearest before it is %d", n_past,
                       point);
    rp_slots_rewind(&s->slots, n_past);
    if (n_past != s->n_past) {
        s->logits           = NULL;
        s->logits_on_device = false;
    }
    s->n_past = n_past;
    if (n_past == 0) s->window_from = s->n_written = 0;
    return RP_OK;
}

const uint64_t *rp_session_expert_counts(const RpSession *s, int layer) {
    if (s == NULL) return NULL;
    const RpModelInfo *info = rp_model_info(s->model);
    if (s->expert_counts == NULL || layer < 0 || layer >= info->n_layer || s->runners[0].experts == NULL ||
        s->runners[0].experts[layer] == NULL)
        return NULL;
    return s->expert_counts + (size_t)layer * (size_t)info->n_expert;
}

/* The executor that decodes. Whether the CPU was a fallback is known to the first runner, which chose the
 * device. */
void rp_session_info_sized(const RpSession *s, RpExecutorInfo *out, size_t out_bytes) {
    if (s == NULL) {
        rp_sized_out(out, out_bytes, NULL, sizeof(RpExecutorInfo));
        return;
    }
    RpExecutorInfo info =
        rp_executor_info(s->sampling.executor != NULL ? s->sampling.executor : s->runners[s->n_runners - 1].executor);
    info.fell_back = rp_executor_info(s->runners[0].executor).fell_back;
    if (info.reason[0] == '\0') info.reason = s->reason;
    for (int i = 0; i < s->n_runners && info.blas[0] == '\0'; i++)
        info.blas = rp_executor_info(s->runners[i].executor).blas;
    rp_sized_out(out, out_bytes, &info, sizeof info);
}

const ExecPlan *rp_session_decode_plan(const RpSession *s) {
    return s != NULL ? s->runners[s->n_runners - 1].plan : NULL;
}
