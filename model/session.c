#include "model/reply.h"

#include "reprise/device.h"
#include "reprise/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CTX = 4096, DEFAULT_CHUNK = 256, MAX_CHUNK = 4096, SCORE_CHUNK = 64, SHORT_CHUNK = 16 };

/* The options with their defaults filled in. */
static RpStatus check_options(const Model *m, const SessionOptions *o, SessionOptions *w) {
    const int32_t n_train = rp_model_info(m)->n_ctx_train;
    *w                    = o != NULL ? *o : (SessionOptions){0};
    if (w->prefill_chunk == 0) w->prefill_chunk = DEFAULT_CHUNK;
    if (w->passes == NULL) w->passes = rp_option(RP_OPT_PASSES);
    if (w->n_ctx == 0) w->n_ctx = n_train < DEFAULT_CTX ? n_train : DEFAULT_CTX;
    if (w->n_ctx < 1 || w->n_ctx > n_train)
        return rp_fail(RP_E_ARG, "a context of %d tokens: from 1 to %d is what the model was trained for",
                       w->n_ctx, n_train);
    if (w->prefill_chunk < 1 || w->prefill_chunk > MAX_CHUNK)
        return rp_fail(RP_E_ARG, "prefill in chunks of %d tokens: from 1 to %d is possible", w->prefill_chunk,
                       MAX_CHUNK);
    if (w->prefill_chunk > w->n_ctx) w->prefill_chunk = w->n_ctx;
    return RP_OK;
}

/* The chunk length after n: a quarter of it down to 8 or more, then 8, 4, 2 and 1. */
static int32_t next_chunk(int32_t n) {
    if (n / 4 >= SHORT_CHUNK) return n / 4;
    return n > 8 ? 8 : n > 4 ? 4 : n > 2 ? 2 : 1;
}

/* The longest chunk, then shorter ones down to one token. */
static RpStatus plan_runners(Session *s, const SessionOptions *w) {
    ModelGraphOptions o = {.n_ctx = w->n_ctx, .kv_type = w->kv_type, .expert_ids = w->count_experts};
    for (o.n_tok = w->prefill_chunk;; o.n_tok = next_chunk(o.n_tok)) {
        RP_TRY(rp_runner_plan(&s->runners[s->n_runners++], s->model, &o, w->passes));
        if (o.n_tok == 1) return RP_OK;
    }
}

static SessionMemory memory_of(const Session *s) {
    SessionMemory m = {.n_ctx = s->n_ctx, .weights = rp_model_info(s->model)->weight_bytes};
    for (int i = 0; i < s->n_runners; i++) {
        const PlanMemory p = rp_plan_memory(s->runners[i].plan);
        if (p.arena > m.arena) m.arena = p.arena;
        if (p.state > m.kv) m.kv = p.state;
    }
    m.total = m.weights + m.kv + m.arena;
    return m;
}

/* Before anything is allocated. Weights are the file's pages, but where a device has memory of its own. */
static RpStatus check_memory(const Session *s, const SessionOptions *w) {
    const SessionMemory m = memory_of(s);
    DeviceMemory        d;
    RP_TRY(rp_device_memory(w->device, w->require_cuda, &d));
    const size_t weights = d.is_own ? m.weights : 0, fixed = m.arena + weights;
    if ((d.free_bytes == 0 && !d.is_own) || m.kv + fixed <= d.free_bytes) return RP_OK;
    const double row      = (double)m.kv / (double)m.n_ctx;
    const double fits     = fixed < d.free_bytes ? (double)(d.free_bytes - fixed) / row : 0.0;
    char         also[64] = "";
    if (weights > 0) snprintf(also, sizeof also, ", %.1f GB for the weights", (double)weights / 1e9);
    return rp_fail(
        RP_E_NOMEM,
        "a context of %d tokens takes %.1f GB for the cache%s and %.1f GB to compute, %.1f GB are free "
        "on %s; about %lld tokens would fit",
        m.n_ctx, (double)m.kv / 1e9, also, (double)m.arena / 1e9, (double)d.free_bytes / 1e9, d.id,
        (long long)fits);
}

static RpStatus plan_session(const Model *m, const SessionOptions *options, SessionOptions *w,
                             Session **out) {
    *out = NULL;
    RP_TRY(check_options(m, options, w));
    Session *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a session");
    s->model                  = m;
    s->n_ctx                  = w->n_ctx;
    s->kv_type                = w->kv_type;
    s->passes                 = strdup(w->passes);
    const ModelInfo *info     = rp_model_info(m);
    const size_t     n_counts = w->count_experts ? (size_t)info->n_layer * (size_t)info->n_expert : 0;
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

RpStatus rp_session_memory(const Model *m, const SessionOptions *options, SessionMemory *out) {
    Session       *s;
    SessionOptions w;
    RP_TRY(plan_session(m, options, &w, &s));
    *out = memory_of(s);
    rp_session_free(s);
    return RP_OK;
}

/* A device draws its tokens itself, but where someone wants to see each step's experts. */
static RpStatus open_draws(Session *s, const SessionOptions *w, ExecutorOptions *o) {
    const ModelGraphOptions graph = {
        .n_tok = 1, .n_ctx = w->n_ctx, .kv_type = w->kv_type, .draws = true, .n_recent = RECENT_TOKENS};
    if (strcmp(rp_session_info(s).device, "cpu") == 0 || w->count_experts) return RP_OK;
    RP_TRY(rp_runner_plan(&s->draws, s->model, &graph, s->passes));
    return rp_runner_open(&s->draws, s->model, o);
}

static RpStatus open_runners(Session *s, const SessionOptions *w) {
    ExecutorOptions o = {.n_threads     = w->n_threads,
                         .device        = w->device,
                         .require_cuda  = w->require_cuda,
                         .require_graph = w->require_graph,
                         .mode          = w->mode};
    for (int i = 0; i < s->n_runners; i++) {
        o.share = i > 0 ? s->runners[0].executor : NULL;
        RP_TRY(rp_runner_open(&s->runners[i], s->model, &o));
    }
    o.share = s->runners[0].executor;
    return open_draws(s, w, &o);
}

/* What decodes has a reason of its own; else it is that of a prefill, which would be given up unseen. */
static void find_reason(Session *s) {
    for (int i = 0; i < s->n_runners && s->reason[0] == '\0'; i++) {
        const ExecutorInfo info = rp_executor_info(s->runners[i].executor);
        const int32_t      n    = s->runners[i].o.n_tok;
        if (info.reason[0] == '\0') continue;
        if (info.fell_back)
            snprintf(s->reason, sizeof s->reason, "%s", info.reason);
        else
            snprintf(s->reason, sizeof s->reason, "prefill of %d token%s: %s", n, n > 1 ? "s" : "",
                     info.reason);
    }
}

static void find_end_tokens(Session *s) {
    const Tokenizer *tk = rp_model_tokenizer(s->model);
    for (int32_t id = 0; tk != NULL && id < rp_model_info(s->model)->n_vocab; id++)
        if (rp_tokenizer_is_end(tk, id) && s->n_end_tokens < RP_REPLY_MAX_END)
            s->end_tokens[s->n_end_tokens++] = id;
}

RpStatus rp_session_open(const Model *m, const SessionOptions *options, Session **out) {
    Session       *s;
    SessionOptions w;
    *out = NULL;
    RP_TRY(plan_session(m, options, &w, &s));
    RpStatus st = check_memory(s, &w);
    if (st == RP_OK) st = open_runners(s, &w);
    if (st != RP_OK) {
        rp_session_free(s);
        return st;
    }
    if (s->draws.executor != NULL) find_end_tokens(s);
    find_reason(s);
    *out = s;
    return RP_OK;
}

void rp_session_free(Session *s) {
    if (s == NULL) return;
    rp_runner_close(&s->draws);
    rp_runner_close(&s->score);
    for (int i = s->n_runners - 1; i >= 0; i--)
        rp_runner_close(&s->runners[i]); /* the first is shared by the others */
    free(s->expert_counts);
    free(s->passes);
    free(s);
}

static RpStatus check_append(const Session *s, const int32_t *tokens, size_t n) {
    const int32_t n_vocab = rp_model_info(s->model)->n_vocab;
    if (n == 0) return rp_fail(RP_E_ARG, "no tokens to append");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "token %d at %zu is outside of the vocabulary of %d", tokens[i], i,
                           n_vocab);
    if (n > (size_t)(s->n_ctx - s->n_past))
        return rp_fail(RP_E_CONTEXT_FULL, "%zu tokens do not fit: the context holds %d of %d already", n,
                       s->n_past, s->n_ctx);
    return RP_OK;
}

/* The runner for the next of `left` tokens: the longest that they nearly fill, the rest being padding. A short chunk is
 * taken from half of it on: a pass over the weights costs more than the padding. */
static Runner *choose_runner(Session *s, size_t left) {
    int i = 0;
    for (; i < s->n_runners - 1; i++) {
        const size_t n = (size_t)s->runners[i].o.n_tok;
        if (n <= SHORT_CHUNK ? left > n / 2 : left >= n * 7 / 8) break;
    }
    return &s->runners[i];
}

static void count_experts(Session *s, const Runner *r, int32_t n) {
    const ModelInfo *info = rp_model_info(s->model);
    for (int l = 0; l < info->n_layer && r->experts != NULL; l++)
        for (int32_t i = 0; i < n * info->n_expert_used && r->experts[l] != NULL; i++)
            s->expert_counts[(int64_t)l * info->n_expert + r->experts[l][i]]++;
}

static RpStatus run(Session *s, Runner *r, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < r->o.n_tok; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        r->pos[i]    = i < n ? s->n_past + i : -1;
    }
    for (int32_t i = 0; i < r->o.n_out; i++) r->out_rows[i] = r->o.n_out == 1 ? n - 1 : i;
    s->logits           = NULL;
    s->logits_on_device = false;
    RP_TRY(rp_executor_run(r->executor));
    count_experts(s, r, n);
    s->n_past += n;
    return RP_OK;
}

RpStatus rp_session_prefill(Session *s, const int32_t *tokens, size_t n, PrefillProgress *progress,
                            void *user) {
    RP_TRY(check_append(s, tokens, n));
    for (size_t done = 0; done < n;) {
        Runner       *r    = choose_runner(s, n - done);
        const int32_t take = n - done < (size_t)r->o.n_tok ? (int32_t)(n - done) : r->o.n_tok;
        RP_TRY(run(s, r, tokens + done, take));
        s->logits = r->logits;
        done += (size_t)take;
        if (progress != NULL && !progress((int64_t)done, (int64_t)n, user) && done < n)
            return rp_fail(RP_E_CANCELLED, "prefill was stopped after %zu of %zu tokens", done, n);
    }
    return RP_OK;
}

RpStatus rp_session_step(Session *s, int32_t token) { return rp_session_prefill(s, &token, 1, NULL, NULL); }

RpStatus rp_session_score(Session *s, const int32_t *tokens, size_t n, LogitsCallback *callback, void *user) {
    const size_t n_vocab = (size_t)rp_model_info(s->model)->n_vocab;
    RP_TRY(check_append(s, tokens, n));
    if (s->score.executor == NULL) {
        const int32_t           chunk = s->n_ctx < SCORE_CHUNK ? s->n_ctx : SCORE_CHUNK;
        const ExecutorOptions   o     = {.share = s->runners[0].executor};
        const ModelGraphOptions graph = {.n_tok      = chunk,
                                         .n_out      = chunk,
                                         .n_ctx      = s->n_ctx,
                                         .kv_type    = s->kv_type,
                                         .expert_ids = s->expert_counts != NULL};
        RpStatus                st    = rp_runner_plan(&s->score, s->model, &graph, s->passes);
        if (st == RP_OK) st = rp_runner_open(&s->score, s->model, &o);
        if (st != RP_OK) {
            rp_runner_close(&s->score);
            return st;
        }
    }
    for (size_t done = 0; done < n;) {
        const int32_t take = n - done < (size_t)s->score.o.n_tok ? (int32_t)(n - done) : s->score.o.n_tok;
        RP_TRY(run(s, &s->score, tokens + done, take));
        for (int32_t i = 0; i < take; i++)
            callback(done + (size_t)i, s->score.logits + (size_t)i * n_vocab, user);
        s->logits = s->score.logits + (size_t)(take - 1) * n_vocab;
        done += (size_t)take;
    }
    return RP_OK;
}

/* After a reply that a device has drawn they are fetched when someone asks. */
const float *rp_session_logits(Session *s) {
    if (s->logits != NULL || !s->logits_on_device) return s->logits;
    const Runner     *r    = &s->runners[s->n_runners - 1];
    const TensorNode *node = rp_graph_find(s->draws.graph, "logits");
    s->logits_on_device    = false;
    if (rp_executor_get(s->draws.executor, node, r->logits,
                        (size_t)rp_model_info(s->model)->n_vocab * sizeof *r->logits) == RP_OK)
        s->logits = r->logits;
    return s->logits;
}

int32_t      rp_session_n_past(const Session *s) { return s->n_past; }
int32_t      rp_session_n_ctx(const Session *s) { return s->n_ctx; }
int          rp_session_n_threads(const Session *s) { return rp_executor_n_threads(s->runners[0].executor); }
const Model *rp_session_model(const Session *s) { return s->model; }

RpStatus rp_session_rewind(Session *s, int32_t n_past) {
    if (n_past < 0 || n_past > s->n_past)
        return rp_fail(RP_E_ARG, "rewind to %d: the context holds %d tokens", n_past, s->n_past);
    if (n_past != s->n_past) {
        s->logits           = NULL;
        s->logits_on_device = false;
    }
    s->n_past = n_past;
    return RP_OK;
}

const uint64_t *rp_session_expert_counts(const Session *s, int layer) {
    const ModelInfo *info = rp_model_info(s->model);
    if (s->expert_counts == NULL || layer < 0 || layer >= info->n_layer || s->runners[0].experts == NULL ||
        s->runners[0].experts[layer] == NULL)
        return NULL;
    return s->expert_counts + (size_t)layer * (size_t)info->n_expert;
}

ExecutorInfo rp_session_info(const Session *s) {
    ExecutorInfo info = rp_executor_info(s->draws.executor != NULL ? s->draws.executor
                                                                   : s->runners[s->n_runners - 1].executor);
    info.fell_back    = rp_executor_info(s->runners[0].executor).fell_back;
    if (info.reason[0] == '\0') info.reason = s->reason;
    return info;
}

const ExecPlan *rp_session_decode_plan(const Session *s) { return s->runners[s->n_runners - 1].plan; }
