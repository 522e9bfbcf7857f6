/* The runners of an embedder, and one text through them.
 *
 *     encoder   one run of all tokens; a runner for each of a few lengths is opened when a text first needs it:
 *                   8, 16, ... 128, 144, ... 256, 288, ... 512, ...        at most 1/8 is padding from 64 on
 *     decoder   runs of chunks of fixed lengths with a KV cache, all opened with the embedder
 *
 * All share with the first runner: its threads, weights, states and arena, which is the largest. */
#include "model/embed/embedder.h"
#include "model/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void rp_embed_runner_close(EmbedRunner *r) {
    rp_executor_free(r->executor);
    rp_plan_free(r->plan);
    rp_graph_free(r->graph);
    *r = (EmbedRunner){0};
}

int32_t rp_embed_outputs(RpPooling pooling, int32_t n_tok) {
    return pooling == RP_POOLING_NONE || pooling == RP_POOLING_MEAN ? n_tok : 1;
}

static void *data_of(const EmbedRunner *r, const char *name) {
    const TensorNode *node = rp_graph_find(r->graph, name);
    return node != NULL ? rp_executor_data(r->executor, node) : NULL;
}

/* Plan and executor of r->graph. */
static RpStatus open_graph(RpEmbedder *e, EmbedRunner *r, const char *result) {
    RpExecutorOptions o = {.n_threads     = e->o.n_threads,
                           .device        = e->o.device,
                           .require_cuda  = e->o.require_cuda,
                           .require_graph = e->o.require_graph,
                           .mode          = e->o.mode,
                           .repack        = e->o.repack,
                           .backend       = r == &e->runners[0] ? e->o.backend : NULL};
    if (r != &e->runners[0]) o.share = e->runners[0].executor;
    RP_TRY(rp_graph_optimize(r->graph, e->passes));
    RP_TRY(rp_plan_new(r->graph, &r->plan));
    RP_TRY(rp_executor_open(r->plan, &o, &r->executor));
    r->tokens   = data_of(r, "tokens");
    r->pos      = data_of(r, "pos");
    r->out_rows = data_of(r, "out_rows");
    r->slots    = data_of(r, "slots");
    r->last     = data_of(r, "last");
    r->types    = data_of(r, "types");
    r->mask     = data_of(r, "mask");
    r->out      = data_of(r, result);
    return RP_OK;
}

RpStatus rp_embed_runner_open(RpEmbedder *e, EmbedRunner *r, int32_t n_tok) {
    const RpModelGraphOptions o = {
        .n_tok = n_tok, .n_ctx = e->o.n_ctx, .n_out = rp_embed_outputs(e->row, n_tok), .embeddings = true};
    r->n_tok    = n_tok;
    r->n_out    = o.n_out;
    RpStatus st = rp_model_graph(e->model, &o, &r->graph);
    if (st == RP_OK) st = open_graph(e, r, "embeddings");
    if (st != RP_OK) rp_embed_runner_close(r);
    return st;
}

RpStatus rp_embed_head_open(RpEmbedder *e) {
    EmbedRunner *r = &e->head;
    e->n_head_out  = e->model->config.n_embd;
    RP_TRY(rp_embed_head_graph(e->model, e->o.pooling, &r->graph));
    if (r->graph == NULL) return RP_OK;
    e->n_head_out = (int32_t)rp_node_view(rp_graph_find(r->graph, "embedding")).ne[0];
    RP_TRY(open_graph(e, r, "embedding"));
    r->mask = data_of(r, "pooled");
    return RP_OK;
}

/* The length of the graph for n tokens of an encoder. */
static int32_t length_for(const RpEmbedder *e, int32_t n) {
    int32_t step = 8;
    while (step * 16 < n) step *= 2;
    const int32_t to = (n + step - 1) / step * step;
    return to < e->o.n_ctx ? to : e->o.n_ctx;
}

static RpStatus runner_for_text(RpEmbedder *e, int32_t n, EmbedRunner **out) {
    const int32_t n_tok = length_for(e, n);
    int           i     = 0;
    while (i < e->n_runners && e->runners[i].n_tok != n_tok) i++;
    *out = &e->runners[i < MAX_EMBED_RUNNERS ? i : 0];
    if (i < e->n_runners || i == MAX_EMBED_RUNNERS) return RP_OK; /* the first fits any text */
    RP_TRY(rp_embed_runner_open(e, *out, n_tok));
    e->n_runners++;
    return RP_OK;
}

static EmbedRunner *runner_for_chunk(RpEmbedder *e, size_t left) {
    int i = 0;
    while (i < e->n_runners - 1 && !rp_runner_is_filled(e->runners[i].n_tok, left)) i++;
    return &e->runners[i];
}

/* 0 where |i - t| <= window / 2, else -infinity. */
static void fill_mask(const EmbedRunner *r, int32_t window) {
    for (int32_t t = 0; t < r->n_tok; t++)
        for (int32_t i = 0; i < r->n_tok; i++)
            r->mask[(int64_t)t * r->n_tok + i] = abs(i - t) <= window / 2 ? 0.0f : -INFINITY;
}

/* Padding stores nothing and attends to nothing. In an encoder its position may be looked up in a table. */
static void fill_inputs(const RpEmbedder *e, const EmbedRunner *r, const int32_t *tokens, int32_t n, int32_t past,
                        int32_t second) {
    const bool encodes = e->model->config.bidirectional;
    for (int32_t i = 0; i < r->n_tok; i++) {
        r->tokens[i] = i < n ? tokens[i] : 0;
        if (r->pos != NULL) r->pos[i] = i < n ? past + i : encodes ? 0 : -1;
        if (r->last != NULL) r->last[i] = i < n ? n - 1 : -1;
        if (r->types != NULL) r->types[i] = i < n && i >= second ? 1 : 0;
        if (r->slots != NULL) r->slots[1 + i] = i == n - 1 ? 0 : -1;
    }
    if (r->slots != NULL) r->slots[0] = past > 0 ? 0 : -1;
    if (r->mask != NULL) fill_mask(r, e->model->config.window);
    for (int32_t i = 0; i < r->n_out; i++)
        r->out_rows[i] = r->n_out > 1 || r->n_tok == 1 ? i : e->row == RP_POOLING_LAST ? n - 1 : 0;
}

/* The head, the first n_out numbers, their norm. */
static RpStatus finish(RpEmbedder *e, const float *pooled, float *out) {
    const int32_t n = e->o.dimensions > 0 ? e->o.dimensions : e->n_head_out;
    if (e->head.executor != NULL) {
        memcpy(e->head.mask, pooled, (size_t)e->model->config.n_embd * sizeof *pooled);
        RP_TRY(rp_executor_run(e->head.executor));
        pooled = e->head.out;
    }
    rp_embed_normalize(pooled, n, e->o.normalize, out);
    return RP_OK;
}

/* Every hidden state is a result. Runs of the head take the memory of the hidden states, which are copied before. */
static RpStatus finish_each(RpEmbedder *e, const EmbedRunner *r, int32_t n, float *out) {
    const int32_t n_embd = e->model->config.n_embd, n_out = e->o.dimensions > 0 ? e->o.dimensions : e->n_head_out;
    const float  *rows = r->out;
    if (e->rows != NULL) rows = memcpy(e->rows, r->out, (size_t)n * (size_t)n_embd * sizeof *rows);
    for (int32_t t = 0; t < n; t++) RP_TRY(finish(e, rows + (int64_t)t * n_embd, out + (int64_t)t * n_out));
    return RP_OK;
}

/* Takes the hidden states of n tokens from `past` on, of which r->out has as many rows as its pooling needs. */
static void pool(RpEmbedder *e, const EmbedRunner *r, int32_t n, int32_t past) {
    const int32_t n_embd = e->model->config.n_embd;
    if (e->row == RP_POOLING_MEAN) {
        for (int32_t t = 0; t < n; t++)
            for (int32_t i = 0; i < n_embd; i++) e->sum[i] += (double)r->out[(int64_t)t * n_embd + i];
        return;
    }
    const bool first = e->row == RP_POOLING_CLS;
    if (!first || past == 0) memcpy(e->pooled, r->out, (size_t)n_embd * sizeof *e->pooled);
}

RpStatus rp_embed_tokens(RpEmbedder *e, const int32_t *tokens, size_t n, size_t second, float *out) {
    const int32_t n_embd = e->model->config.n_embd, n_out = e->o.dimensions > 0 ? e->o.dimensions : e->n_head_out;
    const int32_t all = (int32_t)n, types = second < n ? (int32_t)second : all;
    for (int32_t i = 0; i < n_embd; i++) e->sum[i] = 0.0;
    for (int32_t done = 0, take; done < all; done += take) {
        EmbedRunner *r = NULL;
        if (e->model->config.bidirectional)
            RP_TRY(runner_for_text(e, all, &r));
        else
            r = runner_for_chunk(e, (size_t)(all - done));
        take = all - done < r->n_tok ? all - done : r->n_tok;
        fill_inputs(e, r, tokens + done, take, done, types);
        RP_TRY(rp_executor_run(r->executor));
        if (e->row == RP_POOLING_NONE)
            RP_TRY(finish_each(e, r, take, out + (int64_t)done * n_out));
        else
            pool(e, r, take, done);
    }
    if (e->row == RP_POOLING_NONE) return RP_OK;
    for (int32_t i = 0; i < n_embd && e->row == RP_POOLING_MEAN; i++) e->pooled[i] = (float)(e->sum[i] / (double)n);
    return finish(e, e->pooled, out);
}
