/* The decoder graph of all families. A family is a row of arch_table.c.
 *
 *     tokens -> token_embd [* embd_scale] -> layers -> rows of out_rows -> norm -> output -> logits
 *
 *     a layer:
 *     x --+--> attn_norm --> attention ------> [post norm] --> [* residual_scale] --> + --> x
 *         |                                                                           ^
 *         +---------------------------------------------------------------------------+
 *     x --+--> ffn_norm ---> ffn or experts -> [post norm] --> [* residual_scale] --> + --> next layer
 *         |                                                                           ^
 *         +---------------------------------------------------------------------------+
 *
 * [brackets]: where the family has it. A layer may lack one of its halves, or both read its first norm. Activations are
 * [n_embd, n_tok] f32. Shapes are fixed (I2); everything that changes from run to run is in `tokens`, `pos`,
 * `out_rows` or the step state (I4). */
#include "model/arch.h"

#include "base/argument.h"

#include "base/sized.h"
#include "reprise/step.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* One i32 of the step state, at a byte offset, as a tensor [1]. */
static TensorNode *step_word(Builder *b, size_t offset, const char *name) {
    const RpViewParams p = {
        .ne = {1, 1,               1,               1              },
          .nb = {0, sizeof(int32_t), sizeof(int32_t), sizeof(int32_t)},
          .offset = offset
    };
    return rp_node_set_name(rp_view(b->g, b->step, &p), name);
}

/* Tokens and positions: two inputs; or, in a graph that samples, words of the step state, which the latest
 * run of the same graph has written. */
static TensorNode *tokens_of(Builder *b, const RpModelGraphOptions *o) {
    if (!o->draws) {
        TensorNode *tokens = rp_graph_input(b->g, "tokens", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        b->pos             = rp_graph_input(b->g, "pos", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        b->kv_rows = b->reach = b->pos;
        if (o->target != NULL) b->reach = rp_graph_input(b->g, "reach", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        if (o->n_seq == 0) return tokens;
        b->kv_rows                       = rp_graph_input(b->g, "kv_rows", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        b->seq                           = rp_graph_input(b->g, "seq", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        const int64_t table[RP_MAX_DIMS] = {(o->n_ctx + o->block - 1) / o->block, o->n_seq, 1, 1};
        b->table                         = rp_graph_input(b->g, "table", RP_I32, table);
        if (o->n_window_blocks == 0) return tokens;
        b->window_rows  = rp_graph_input(b->g, "window_rows", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        b->window_table = rp_graph_input(b->g, "window_table", RP_I32, table);
        return tokens;
    }
    b->step    = rp_graph_state(b->g, "step", RP_I32, (int64_t[]){RP_STEP_WORDS + o->n_recent, 1, 1, 1});
    b->pos     = step_word(b, offsetof(RpStepState, pos), "pos");
    b->kv_rows = b->reach = b->pos;
    return step_word(b, offsetof(RpStepState, token), "token");
}

/* The slots of recurrent states: an input; or, in a graph that samples, a state of zeros, so that the state in slot 0
 * is updated in place. */
static TensorNode *slots_of(Builder *b, const RpModelGraphOptions *o) {
    const int64_t ne[RP_MAX_DIMS] = {b->n_tok + 1, 1, 1, 1};
    return o->draws ? rp_graph_state(b->g, "slots", RP_I32, ne) : rp_graph_input(b->g, "slots", RP_I32, ne);
}

static TensorNode *last_norm(Builder *b, TensorNode *x, const char *name) {
    return b->m->config.arch->norm_of_sum
               ? x
               : rp_arch_normed(b, x, (ArchNorm){b->m->output_norm, b->m->output_norm_bias, 0.0f}, name);
}

static ArchOutput output_of(Builder *b, TensorNode *x, TensorNode *embd) {
    const RpModel *m = b->m;
    return (ArchOutput){
        .w = m->output == m->token_embd ? embd : rp_arch_weight(b, m->output), .x = x, .scale = m->config.logit_scale};
}

/* Builds the graph from the tokens to the last product, which is computed for the tokens that `rows` names; NULL:
 * all. */
static ArchOutput decoder(Builder *b, TensorNode *tokens, TensorNode *rows) {
    const RpModel *m    = b->m;
    TensorNode    *embd = rp_arch_weight(b, m->token_embd);
    rp_arch_begin_layers(b);

    TensorNode *x = rp_arch_name_node(b, rp_get_rows(b->g, embd, tokens), "embedding");
    x             = rp_arch_encoder_embd(b, rp_arch_scaled(b, x, m->config.embd_scale, "embedding_scaled"));
    if (m->layer_embd != NULL) b->layer_embd = rp_arch_layer_embd(b, tokens, x);
    x = rp_arch_layers(b, x);
    if (b->hidden) x = b->outputs[b->n_outputs++] = last_norm(b, x, "hidden");
    /* only these rows need the output matrix, the largest of the model */
    if (rows != NULL) x = rp_arch_name_node(b, rp_get_rows(b->g, x, rows), "out_rows_of_last");
    if (!b->hidden) x = last_norm(b, x, "output_norm");
    return output_of(b, x, embd);
}

/* The whole graph, up to the logits; a graph that samples ends in the op `sample`, which writes the step
 * state. */
static TensorNode *build(Builder *b, const RpModelGraphOptions *o) {
    const RpModel *m      = b->m;
    const int64_t  n_out  = o->n_out > 0 ? o->n_out : 1;
    TensorNode    *tokens = tokens_of(b, o);
    TensorNode    *rows   = o->draws ? NULL : rp_graph_input(b->g, "out_rows", RP_I32, (int64_t[]){n_out, 1, 1, 1});
    if (o->mtp) return rp_arch_mtp(b, tokens, rows);
    if (o->target != NULL) return rp_arch_assistant(b, o->target, tokens, rows);
    if (rp_config_state_bytes(&m->config) > 0) b->slots = slots_of(b, o);
    if (m->config.bidirectional) rp_arch_encoder_inputs(b);
    if (b->slots != NULL && o->n_seq > 0)
        b->starts = rp_graph_input(b->g, "starts", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
    const ArchOutput output = decoder(b, tokens, rows);
    if (o->embeddings) return rp_arch_name_node(b, output.x, "embeddings");
    TensorNode *logits = rp_arch_logits(b, &output);
    if (o->draws) { /* kept without being an output: a store into a state counts as needed */
        const int64_t     n_vocab   = m->token_embd->view.ne[1];
        TensorNode       *scratch   = rp_graph_state(b->g, "candidates", RP_F32, (int64_t[]){2 * n_vocab, 1, 1, 1});
        TensorNode       *extra     = rp_graph_state(b->g, "sample_extra", RP_I32,
                                                     (int64_t[]){RP_SAMPLE_EXTRA_WORDS + (n_vocab + 31) / 32, 1, 1, 1});
        TensorNode *const sources[] = {logits, b->step, scratch, extra};
        rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_SAMPLE, NULL, sources, 4), "next_token");
    }
    return logits;
}

ArchOutput rp_arch_training(Builder *b) {
    const RpModelGraphOptions o = {0};
    return decoder(b, tokens_of(b, &o), NULL);
}

/* RP_F32 is 0, the value of an option that is not set. */
static RpDtype kv_type_of(const RpModelGraphOptions *o) { return o->kv_type == RP_F32 ? RP_F16 : o->kv_type; }

static RpStatus check_kv(const ModelConfig *c, RpDtype kv_type) {
    if (kv_type == RP_F16) return RP_OK;
    if (kv_type != RP_Q8_0) return rp_fail(RP_E_ARG, "a KV cache of %s: must be f16 or q8_0", rp_dtype_name(kv_type));
    if (rp_pattern_has(&c->layers, ATTENTION_LATENT))
        return rp_fail(RP_E_UNSUPPORTED, "a KV cache of q8_0: the latent attention of %s needs f16", c->arch->name);
    const int32_t head = c->head_dim % 32 != 0 ? c->head_dim : c->head_dim_window;
    if (head % 32 != 0)
        return rp_fail(RP_E_UNSUPPORTED, "a KV cache of q8_0: heads of %d are not whole blocks of 32", head);
    return RP_OK;
}

/* Some layer attends to positions. A recurrent one does not. */
static bool attends(const ModelConfig *c) {
    for (int i = 0; i < c->n_layer; i++) {
        const AttentionKind kind = rp_config_layer(c, i).attention;
        if (kind != ATTENTION_NONE && !rp_attention_is_recurrent(kind)) return true;
    }
    return false;
}

enum {
    MAX_RECENT = 1 << 20,
    MAX_STATES = 1 << 12,
    MAX_SEQ    = 1 << 12,
    MAX_ROWS   = 1 << 30
}; /* as RpSamplerParams.repeat_last_n */

static RpStatus check_options(const ModelConfig *c, const RpModelGraphOptions *o) {
    RP_TRY(check_kv(c, kv_type_of(o)));
    if (c->bidirectional && (!o->embeddings || o->draws || o->n_seq != 0))
        return rp_fail(RP_E_UNSUPPORTED, "%s attends to later positions: it has embeddings of texts, and no next token",
                       c->arch->name);
    if ((o->mtp || o->hidden) && (o->draws || o->embeddings || (o->mtp && o->hidden)))
        return rp_fail(RP_E_ARG, "a graph with `mtp` or `hidden` has neither the other nor `draws` and `embeddings`");
    if (o->mtp && o->n_tok > MTP_MAX_TOKENS)
        return rp_fail(RP_E_ARG, "a graph of %d tokens with `mtp`: must be at most %d", o->n_tok, MTP_MAX_TOKENS);
    if (o->draws && o->embeddings) return rp_fail(RP_E_ARG, "a graph that samples has no embeddings");
    if (!attends(c)) /* its graph would not depend on `pos` */
        return rp_fail(RP_E_UNSUPPORTED, "%s: no layer has attention", c->arch->name);
    if (o->n_recent < 0 || o->n_recent > MAX_RECENT)
        return rp_fail(RP_E_ARG, "room for %d recent tokens: must be from 0 to %d", o->n_recent, MAX_RECENT);
    if (o->n_states < 0 || o->n_states > MAX_STATES)
        return rp_fail(RP_E_ARG, "room for %d recurrent states: must be from 0 to %d", o->n_states, MAX_STATES);
    if (o->n_tok < 1 || o->n_ctx < 1 || o->n_out < 0)
        return rp_fail(RP_E_ARG, "a graph of %d tokens, a context of %d and %d outputs", o->n_tok, o->n_ctx, o->n_out);
    if (c->arch->embd_positions && !c->bidirectional && o->n_ctx > c->n_ctx_train)
        return rp_fail(RP_E_ARG, "a context of %d: must be at most %d, the positions that the model has embeddings of",
                       o->n_ctx, c->n_ctx_train);
    if (o->draws && (o->n_tok != 1 || o->n_out > 1 || o->n_seq != 0))
        return rp_fail(RP_E_ARG, "a graph that samples: %d tokens, %d outputs, %d sequences", o->n_tok, o->n_out,
                       o->n_seq);
    if (o->n_seq < 0 || o->n_seq > MAX_SEQ)
        return rp_fail(RP_E_ARG, "a graph of %d sequences: must be from 0 to %d", o->n_seq, MAX_SEQ);
    if (o->n_seq == 0 && (o->block != 0 || o->n_blocks != 0 || o->n_window_blocks != 0))
        return rp_fail(RP_E_ARG, "a graph of %d blocks of %d positions must have n_seq", o->n_blocks, o->block);
    if (o->n_seq == 0) return RP_OK;
    if (o->block < 32 || o->block % 32 != 0)
        return rp_fail(RP_E_ARG, "blocks of %d positions: must be a multiple of 32", o->block);
    if (o->n_blocks < 1 || o->n_blocks > MAX_ROWS / o->block)
        return rp_fail(RP_E_ARG, "a cache of %d blocks: must be from 1 to %d", o->n_blocks, MAX_ROWS / o->block);
    if (o->n_window_blocks < 0 || o->n_window_blocks > MAX_ROWS / o->block)
        return rp_fail(RP_E_ARG, "caches of %d blocks for layers with a window: must be from 0 to %d",
                       o->n_window_blocks, MAX_ROWS / o->block);
    return RP_OK;
}

/* The sources of the products and the logits. */
static RpStatus finish(Builder *b, TensorNode *logits) {
    const ArchProducts *p = b->products;
    for (int i = 0; p != NULL && i < p->n; i++) {
        b->outputs[b->n_outputs++] = p->list[i].x;
        if (p->list[i].ids != NULL) b->outputs[b->n_outputs++] = p->list[i].ids;
    }
    b->outputs[b->n_outputs++] = logits;
    return rp_graph_finish(b->g, b->outputs, b->n_outputs);
}

static RpStatus check_target(const RpModel *m, const RpModelGraphOptions *o) {
    const char *name = m->config.arch->name;
    if (!m->config.arch->assistant)
        return o->target == NULL ? RP_OK : rp_fail(RP_E_ARG, "%s is no assistant: its graph has no target", name);
    if (o->target == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s guesses tokens of another model: give it as the draft model of that one",
                       name);
    if (o->mtp || o->hidden || o->draws || o->embeddings || o->n_tok > MTP_MAX_TOKENS)
        return rp_fail(
            RP_E_ARG, "the graph of an assistant has up to %d tokens, and no `mtp`, `hidden`, `draws` and `embeddings`",
            MTP_MAX_TOKENS);
    return rp_arch_check_assistant(m, o->target);
}

RpStatus rp_arch_graph(const RpModel *m, const RpModelGraphOptions *o, ArchProducts *products, ComputeGraph **out) {
    RP_TRY(check_options(&m->config, o));
    RP_TRY(check_target(m, o));
    if (o->mtp && m->mtp.eh_proj == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: the model has no layer that predicts further tokens",
                       rp_gguf_path(m->file));
    ComputeGraph *g = rp_graph_new();
    if (g == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    Builder b = {.m             = m,
                 .g             = g,
                 .n_tok         = o->n_tok,
                 .n_ctx         = o->n_ctx,
                 .block         = o->n_seq > 0 ? o->block : 0,
                 .n_rows        = o->n_seq > 0 ? o->n_blocks * o->block : o->n_ctx,
                 .n_window_rows = o->n_seq > 0 ? o->n_window_blocks * o->block : 0,
                 .n_states      = o->n_states > 0 ? o->n_states : 1,
                 .kv_type       = kv_type_of(o),
                 .layer         = -1,
                 .hidden        = o->hidden,
                 .expert_ids    = o->expert_ids,
                 .products      = products};
    b.outputs = calloc((size_t)m->config.n_layer + 3 + (products != NULL ? 2 * (size_t)products->room : 0),
                       sizeof(TensorNode *));
    b.caches  = calloc(2 * (size_t)m->config.n_layer + 4, sizeof(TensorNode *));
    if (b.outputs == NULL || b.caches == NULL) {
        free(b.outputs);
        free(b.caches);
        rp_graph_free(g);
        return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    }
    const RpStatus st = finish(&b, build(&b, o));
    free(b.outputs);
    free(b.caches);
    if (st != RP_OK) {
        rp_graph_free(g);
        return st;
    }
    *out = g;
    return RP_OK;
}

RpStatus rp_model_graph_sized(const RpModel *m, const RpModelGraphOptions *options, size_t options_bytes,
                              ComputeGraph **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");

    RpModelGraphOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpModelGraphOptions"));
    return rp_arch_graph(m, &o, NULL, out);
}
