/* Embedders: options, pooling, texts and scores. */
#include "model/embed/embedder.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/gguf/gguf_file.h"
#include "model/runner.h"
#include "model/tokenizer/pair.h"
#include "reprise/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NORM = 64 };

static const char *const names[] = {"default", "none", "mean", "cls", "last", "rank"};
enum { N_POOLINGS = sizeof names / sizeof names[0] };

const char *rp_pooling_name(RpPooling pooling) {
    return (int)pooling >= 0 && (int)pooling < N_POOLINGS ? names[pooling] : "?";
}

RpStatus rp_pooling_from_name(const char *name, RpPooling *out) {
    RP_NOT_NULL(name, "name");
    RP_NOT_NULL(out, "out");

    for (int i = 0; i < N_POOLINGS; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (RpPooling)i;
            return RP_OK;
        }
    return rp_fail(RP_E_ARG, "pooling '%.32s': must be default, none, mean, cls, last or rank", name);
}

/* The pooling of the file where the options leave it open. */
static RpStatus choose_pooling(const RpModel *m, RpEmbedderOptions *w) {
    if ((int)w->pooling < 0 || (int)w->pooling >= N_POOLINGS)
        return rp_fail(RP_E_ARG, "pooling %d: must be one of RpPooling", (int)w->pooling);
    if (w->pooling == RP_POOLING_DEFAULT) w->pooling = (RpPooling)m->config.pooling;
    if (w->pooling == RP_POOLING_DEFAULT)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: the file has no %s.pooling_type: name a pooling (none, mean, cls or last)",
                       rp_gguf_path(m->file), m->config.arch->name);
    if (w->pooling == RP_POOLING_RANK && m->embed.cls == NULL && m->embed.cls_out == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: there is no classification head (tensor cls.output.weight)",
                       rp_gguf_path(m->file));
    return RP_OK;
}

/* Copies the options to *w, fills the defaults in and checks every limit (I11). */
static RpStatus check_options(const RpModel *m, const RpEmbedderOptions *o, RpEmbedderOptions *w) {
    *w = *o;
    RP_TRY(choose_pooling(m, w));
    if (w->passes == NULL) w->passes = rp_option(RP_OPT_PASSES);
    w->repack = rp_runner_repack(w->repack, "codebook");
    RP_TRY(rp_runner_check_lengths(m, rp_runner_device(w->device, w->backend), w->require_cuda, &w->n_ctx,
                                   &w->prefill_chunk));
    if (w->normalize < RP_NORMALIZE_MAX || w->normalize > MAX_NORM)
        return rp_fail(RP_E_ARG, "norm %d: must be from -2 to %d", w->normalize, MAX_NORM);
    if (w->normalize == RP_NORMALIZE_DEFAULT) w->normalize = w->pooling == RP_POOLING_RANK ? RP_NORMALIZE_NONE : 2;
    return RP_OK;
}

static RpStatus check_dimensions(const RpEmbedder *e) {
    const int32_t n = e->o.dimensions;
    if (n >= 0 && n <= e->n_head_out && (n == 0 || e->o.pooling != RP_POOLING_RANK)) return RP_OK;
    if (e->o.pooling == RP_POOLING_RANK) return rp_fail(RP_E_ARG, "%d dimensions: scores cannot be cut", n);
    return rp_fail(RP_E_ARG, "%d dimensions: must be from 0 to %d", n, e->n_head_out);
}

/* The pooling before a classification head: the mean or the first token in encoders, the last token in decoders. */
static RpPooling row_of(const ModelConfig *c, RpPooling pooling) {
    if (pooling != RP_POOLING_RANK) return pooling;
    if (c->pooling_of_rank == RP_POOLING_MEAN || c->pooling_of_rank == RP_POOLING_LAST ||
        c->pooling_of_rank == RP_POOLING_CLS)
        return (RpPooling)c->pooling_of_rank;
    if (!c->bidirectional) return RP_POOLING_LAST;
    return c->arch->head_gelu ? RP_POOLING_MEAN : RP_POOLING_CLS; /* files of ModernBERT without the key */
}

static RpStatus open_all(RpEmbedder *e) {
    const size_t n = (size_t)e->model->config.n_embd;
    e->passes      = strdup(e->o.passes);
    e->sum         = calloc(n, sizeof *e->sum);
    e->pooled      = calloc(n, sizeof *e->pooled);
    if (e->passes == NULL || e->sum == NULL || e->pooled == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for an embedder");
    const bool encodes = e->model->config.bidirectional;
    for (int32_t n_tok = encodes ? e->o.n_ctx : e->o.prefill_chunk;; n_tok = rp_runner_next_chunk(n_tok)) {
        RP_TRY(rp_embed_runner_open(e, &e->runners[e->n_runners], n_tok));
        e->n_runners++;
        if (encodes || n_tok == 1) break;
    }
    RP_TRY(rp_embed_head_open(e));
    RP_TRY(check_dimensions(e));
    if (e->row != RP_POOLING_NONE || e->head.executor == NULL) return RP_OK;
    e->rows = calloc((size_t)e->runners[0].n_tok * n, sizeof *e->rows);
    return e->rows != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for an embedder");
}

RpStatus rp_embedder_open_sized(const RpModel *m, const RpEmbedderOptions *options, size_t options_bytes,
                                RpEmbedder **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");

    RpEmbedderOptions o, w;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpEmbedderOptions"));
    RP_TRY(check_options(m, &o, &w));
    RpEmbedder *e = calloc(1, sizeof *e);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an embedder");
    e->model          = m;
    e->o              = w;
    e->row            = row_of(&m->config, w.pooling);
    const RpStatus st = open_all(e);
    if (st != RP_OK) {
        rp_embedder_free(e);
        return st;
    }
    e->o.device = e->o.passes = e->o.repack = e->o.backend = NULL; /* borrowed for the call alone */
    *out                                                   = e;
    return RP_OK;
}

void rp_embedder_free(RpEmbedder *e) {
    if (e == NULL) return;
    rp_embed_runner_close(&e->head);
    for (int i = e->n_runners - 1; i >= 0; i--)
        rp_embed_runner_close(&e->runners[i]); /* the first owns what is shared */
    rp_token_list_free(&e->tokens);
    free(e->rows);
    free(e->pooled);
    free(e->sum);
    free(e->passes);
    free(e);
}

void rp_embedder_info_sized(const RpEmbedder *e, RpEmbedderInfo *out, size_t out_bytes) {
    if (e == NULL) {
        rp_sized_out(out, out_bytes, NULL, sizeof(RpEmbedderInfo));
        return;
    }
    const RpExecutorInfo x    = rp_executor_info(e->runners[0].executor);
    RpEmbedderInfo       info = {.n_out        = e->o.dimensions > 0 ? e->o.dimensions : e->n_head_out,
                                 .n_ctx        = e->o.n_ctx,
                                 .pooling      = e->o.pooling,
                                 .n_threads    = rp_executor_n_threads(e->runners[0].executor),
                                 .device       = x.device,
                                 .reason       = x.reason,
                                 .backend      = x.backend,
                                 .repack_bytes = x.repack_bytes,
                                 .fell_back    = x.fell_back};
    for (int i = 0; i < e->n_runners; i++) {
        const RpPlanMemory p = rp_plan_memory(e->runners[i].plan);
        if (p.arena > info.arena) info.arena = p.arena;
        if (p.state > info.kv) info.kv = p.state;
    }
    rp_sized_out(out, out_bytes, &info, sizeof info);
}

static RpStatus check_tokens(const RpEmbedder *e, const int32_t *tokens, size_t n) {
    const int32_t n_vocab = rp_model_info(e->model)->n_vocab;
    if (n == 0) return rp_fail(RP_E_ARG, "no tokens to embed");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "token %d at %zu is outside of the vocabulary of %d", tokens[i], i, n_vocab);
    if (n <= (size_t)e->o.n_ctx) return RP_OK;
    return rp_fail(RP_E_CONTEXT_FULL, "a text of %zu tokens is longer than the context of %d", n, e->o.n_ctx);
}

RpStatus rp_embed(RpEmbedder *e, const int32_t *tokens, size_t n, float *out) {
    RP_NOT_NULL(e, "e");
    if (n > 0) RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(out, "out");

    RP_TRY(check_tokens(e, tokens, n));
    return rp_embed_tokens(e, tokens, n, n, out);
}

static RpStatus need_tokenizer(const RpModel *m) {
    if (m->tokenizer != NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: the file has no tokenizer", rp_gguf_path(m->file));
}

RpStatus rp_embed_text(RpEmbedder *e, const char *text, size_t len, float *out) {
    RP_NOT_NULL(e, "e");
    if (len > 0) RP_NOT_NULL(text, "text");
    RP_NOT_NULL(out, "out");

    RP_TRY(need_tokenizer(e->model));
    if (e->o.pooling == RP_POOLING_NONE)
        return rp_fail(RP_E_ARG, "pooling none gives a vector for each token: tokenise the text, then call rp_embed");
    if (len == 0) return rp_fail(RP_E_ARG, "an empty text has no embedding");
    e->tokens.n = 0;
    RP_TRY(rp_tokenize(e->model->tokenizer, text, len, RP_TOK_ADD_SPECIAL, &e->tokens));
    return rp_embed(e, e->tokens.ids, e->tokens.n, out);
}

/* *out is empty where the file has no template. */
static RpStatus rank_template(const RpModel *m, RpGgufString *out) {
    *out = (RpGgufString){"", 0};
    return rp_gguf_get_string(m->file, "tokenizer.chat_template.rerank", out);
}

RpStatus rp_rerank(RpEmbedder *e, const char *query, size_t query_len, const char *document, size_t document_len,
                   float *score) {
    RP_NOT_NULL(e, "e");
    if (query_len > 0) RP_NOT_NULL(query, "query");
    if (document_len > 0) RP_NOT_NULL(document, "document");
    RP_NOT_NULL(score, "score");

    const RpModel *m = e->model;
    RP_TRY(need_tokenizer(m));
    if (e->o.pooling != RP_POOLING_RANK)
        return rp_fail(RP_E_ARG, "documents are scored by an embedder of pooling rank, this one has %s",
                       rp_pooling_name(e->o.pooling));
    if (query_len == 0 || document_len == 0)
        return rp_fail(RP_E_ARG, "an empty %s has no score", query_len == 0 ? "query" : "document");
    TextPair pair = {
        .query = {query,    query_len   },
          .document = {document, document_len}
    };
    RP_TRY(rank_template(m, &pair.format));
    e->tokens.n = 0;
    RP_TRY(rp_tokenize_pair(m->tokenizer, &pair, &e->tokens));
    RP_TRY(check_tokens(e, e->tokens.ids, e->tokens.n));
    const bool two = m->embed.types != NULL && m->embed.types->view.ne[1] > 1;
    float      one, *scores = &one;
    if (e->n_head_out > 1) scores = malloc((size_t)e->n_head_out * sizeof *scores);
    if (scores == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d scores", e->n_head_out);
    const RpStatus st = rp_embed_tokens(e, e->tokens.ids, e->tokens.n, two ? pair.second : e->tokens.n, scores);
    if (st == RP_OK) *score = scores[0];
    if (scores != &one) free(scores);
    return st;
}
