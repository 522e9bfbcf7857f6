#include "reprise/session.h"

#include "reprise/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CTX = 4096, DEFAULT_CHUNK = 256, MAX_CHUNK = 4096, SCORE_CHUNK = 64, MAX_RUNNERS = 8 };

/* A graph for n_tok tokens, its plan and its executor. */
typedef struct Runner {
    int32_t         n_tok, n_out;
    ComputeGraph   *graph;
    ExecPlan       *plan;
    Executor       *executor;
    int32_t        *tokens, *pos, *out_rows;
    const float    *logits;  /* [n_out][n_vocab] */
    const int32_t **experts; /* of each layer: ids [n_expert_used, n_tok] or NULL; NULL for models without */
} Runner;

struct Session {
    const Model *model;
    Runner       runners[MAX_RUNNERS]; /* longest chunk first, the last for one token */
    int          n_runners;
    Runner       score; /* logits for every token; opened when first used */
    char        *passes;
    int32_t      n_ctx, n_past;
    RpDtype      kv_type;
    const float *logits;
    uint64_t    *expert_counts; /* [n_layer][n_expert], or NULL */
};

static void runner_close(Runner *r) {
    rp_executor_free(r->executor);
    rp_plan_free(r->plan);
    rp_graph_free(r->graph);
    free(r->experts);
    *r = (Runner){0};
}

static RpStatus runner_plan(Runner *r, int32_t n_tok, int32_t n_out, const Session *s) {
    r->n_tok = n_tok;
    r->n_out = n_out;
    RP_TRY(rp_model_graph(s->model, n_tok, s->n_ctx, n_out, s->kv_type, &r->graph));
    RP_TRY(rp_graph_optimize(r->graph, s->passes));
    return rp_plan_new(r->graph, &r->plan);
}

static RpStatus find_experts(Runner *r, const ModelInfo *info) {
    if (info->n_expert == 0) return RP_OK;
    r->experts = calloc((size_t)info->n_layer, sizeof *r->experts);
    if (r->experts == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a session");
    for (int i = 0; i < info->n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.experts", i);
        const TensorNode *node = rp_graph_find(r->graph, name);
        if (node != NULL) r->experts[i] = rp_executor_data(r->executor, node);
    }
    return RP_OK;
}

static RpStatus runner_open(Runner *r, const Model *m, const ExecutorOptions *options) {
    RP_TRY(rp_executor_open(r->plan, options, &r->executor));
    RP_TRY(find_experts(r, rp_model_info(m)));
    r->tokens   = rp_executor_data(r->executor, rp_graph_find(r->graph, "tokens"));
    r->pos      = rp_executor_data(r->executor, rp_graph_find(r->graph, "pos"));
    r->out_rows = rp_executor_data(r->executor, rp_graph_find(r->graph, "out_rows"));
    r->logits   = rp_executor_data(r->executor, rp_graph_find(r->graph, "logits"));
    return RP_OK;
}

typedef struct Wanted {
    int32_t     n_ctx, chunk;
    const char *passes;
    int         n_threads;
    RpDtype     kv_type;
} Wanted;

static RpStatus check_options(const Model *m, const SessionOptions *o, Wanted *w) {
    static const SessionOptions defaults = {0};
    const int32_t               n_train  = rp_model_info(m)->n_ctx_train;
    if (o == NULL) o = &defaults;
    *w = (Wanted){.n_ctx     = o->n_ctx,
                  .chunk     = o->prefill_chunk == 0 ? DEFAULT_CHUNK : o->prefill_chunk,
                  .passes    = o->passes != NULL ? o->passes : rp_option(RP_OPT_PASSES),
                  .n_threads = o->n_threads,
                  .kv_type   = o->kv_type};
    if (w->n_ctx == 0) w->n_ctx = n_train < DEFAULT_CTX ? n_train : DEFAULT_CTX;
    if (w->n_ctx < 1 || w->n_ctx > n_train)
        return rp_fail(RP_E_ARG, "a context of %d tokens: from 1 to %d is what the model was trained for",
                       w->n_ctx, n_train);
    if (w->chunk < 1 || w->chunk > MAX_CHUNK)
        return rp_fail(RP_E_ARG, "prefill in chunks of %d tokens: from 1 to %d is possible", w->chunk,
                       MAX_CHUNK);
    if (w->chunk > w->n_ctx) w->chunk = w->n_ctx;
    return RP_OK;
}

/* Chunk lengths: the longest, then a quarter of it each time, down to one token. */
static RpStatus plan_runners(Session *s, const Wanted *w) {
    for (int32_t n_tok = w->chunk;; n_tok = n_tok / 4 >= 8 ? n_tok / 4 : 1) {
        Runner *r = &s->runners[s->n_runners++];
        RP_TRY(runner_plan(r, n_tok, 1, s));
        if (n_tok == 1) return RP_OK;
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

/* Memory that could be had without swapping, or 0 where nobody tells. */
static size_t available_memory(void) {
    FILE              *f  = fopen("/proc/meminfo", "r");
    unsigned long long kb = 0;
    char               line[128];
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) break;
    if (f != NULL) fclose(f);
    return (size_t)kb * 1024;
}

static RpStatus check_memory(const Session *s) {
    const SessionMemory m    = memory_of(s);
    const size_t        have = available_memory();
    if (have == 0 || m.kv + m.arena <= have) return RP_OK;
    const double row  = (double)m.kv / (double)m.n_ctx;
    const double fits = m.arena < have ? (double)(have - m.arena) / row : 0.0;
    return rp_fail(
        RP_E_NOMEM,
        "a context of %d tokens takes %.1f GB for the cache and %.1f GB to compute, %.1f GB are free; about "
        "%lld tokens would fit",
        m.n_ctx, (double)m.kv / 1e9, (double)m.arena / 1e9, (double)have / 1e9, (long long)fits);
}

static RpStatus plan_session(const Model *m, const SessionOptions *options, Wanted *w, Session **out) {
    *out = NULL;
    RP_TRY(check_options(m, options, w));
    Session *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a session");
    s->model                  = m;
    s->n_ctx                  = w->n_ctx;
    s->kv_type                = w->kv_type;
    s->passes                 = strdup(w->passes);
    const ModelInfo *info     = rp_model_info(m);
    const size_t     n_counts = (size_t)info->n_layer * (size_t)info->n_expert;
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
    Session *s;
    Wanted   w;
    RP_TRY(plan_session(m, options, &w, &s));
    *out = memory_of(s);
    rp_session_free(s);
    return RP_OK;
}

static RpStatus open_runners(Session *s, int n_threads) {
    for (int i = 0; i < s->n_runners; i++) {
        const ExecutorOptions o = {.n_threads = n_threads, .share = i > 0 ? s->runners[0].executor : NULL};
        RP_TRY(runner_open(&s->runners[i], s->model, &o));
    }
    return RP_OK;
}

RpStatus rp_session_open(const Model *m, const SessionOptions *options, Session **out) {
    Session *s;
    Wanted   w;
    *out = NULL;
    RP_TRY(plan_session(m, options, &w, &s));
    RpStatus st = check_memory(s);
    if (st == RP_OK) st = open_runners(s, w.n_threads);
    if (st != RP_OK) {
        rp_session_free(s);
        return st;
    }
    *out = s;
    return RP_OK;
}

void rp_session_free(Session *s) {
    if (s == NULL) return;
    runner_close(&s->score);
    for (int i = s->n_runners - 1; i >= 0; i--)
        runner_close(&s->runners[i]); /* the first is shared by the others */
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

/* The runner for the next of `left` tokens: the longest that they nearly fill, the rest being padding. The
 * shortest chunk is taken from a quarter on: even then it is cheaper than to read the weights once a token.
 */
static Runner *choose_runner(Session *s, size_t left) {
    int i = 0;
    for (; i < s->n_runners - 2; i++)
        if (left >= (size_t)s->runners[i].n_tok * 7 / 8) return &s->runners[i];
    if (i < s->n_runners - 1 && left > 1 && left >= (size_t)s->runners[i].n_tok / 4) return &s->runners[i];
    return &s->runners[s->n_runners - 1];
}

static void count_experts(Session *s, const Runner *r, int32_t n) {
    const ModelInfo *info = rp_model_info(s->model);
    for (int l = 0; l < info->n_layer && r->experts != NULL; l++)
        for (int32_t i = 0; i < n * info->n_expert_used && r->experts[l] != NULL; i++)
            s->expert_counts[(int64_t)l * info->n_expert + r->experts[l][i]]++;
}

static RpStatus run(Session *s, Runner *r, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < r->n_tok; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        r->pos[i]    = i < n ? s->n_past + i : -1;
    }
    for (int32_t i = 0; i < r->n_out; i++) r->out_rows[i] = r->n_out == 1 ? n - 1 : i;
    s->logits = NULL;
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
        const int32_t take = n - done < (size_t)r->n_tok ? (int32_t)(n - done) : r->n_tok;
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
        const int32_t         chunk = s->n_ctx < SCORE_CHUNK ? s->n_ctx : SCORE_CHUNK;
        const ExecutorOptions o     = {.share = s->runners[0].executor};
        RpStatus              st    = runner_plan(&s->score, chunk, chunk, s);
        if (st == RP_OK) st = runner_open(&s->score, s->model, &o);
        if (st != RP_OK) {
            runner_close(&s->score);
            return st;
        }
    }
    for (size_t done = 0; done < n;) {
        const int32_t take = n - done < (size_t)s->score.n_tok ? (int32_t)(n - done) : s->score.n_tok;
        RP_TRY(run(s, &s->score, tokens + done, take));
        for (int32_t i = 0; i < take; i++)
            callback(done + (size_t)i, s->score.logits + (size_t)i * n_vocab, user);
        s->logits = s->score.logits + (size_t)(take - 1) * n_vocab;
        done += (size_t)take;
    }
    return RP_OK;
}

const float *rp_session_logits(const Session *s) { return s->logits; }
int32_t      rp_session_n_past(const Session *s) { return s->n_past; }
int32_t      rp_session_n_ctx(const Session *s) { return s->n_ctx; }
int          rp_session_n_threads(const Session *s) { return rp_executor_n_threads(s->runners[0].executor); }
const Model *rp_session_model(const Session *s) { return s->model; }

RpStatus rp_session_rewind(Session *s, int32_t n_past) {
    if (n_past < 0 || n_past > s->n_past)
        return rp_fail(RP_E_ARG, "rewind to %d: the context holds %d tokens", n_past, s->n_past);
    if (n_past != s->n_past) s->logits = NULL;
    s->n_past = n_past;
    return RP_OK;
}

const uint64_t *rp_session_expert_counts(const Session *s, int layer) {
    const ModelInfo *info = rp_model_info(s->model);
    if (s->expert_counts == NULL || layer < 0 || layer >= info->n_layer ||
        s->runners[0].experts[layer] == NULL)
        return NULL;
    return s->expert_counts + (size_t)layer * (size_t)info->n_expert;
}

const ExecPlan *rp_session_decode_plan(const Session *s) { return s->runners[s->n_runners - 1].plan; }
