/* The graph of the dense decoders: norm, attention, norm, gated feed-forward, each with a residual. What a
 * family adds is in the features of its row in the table of architectures. */
#include "model/model.h"

#include <stdio.h>

typedef struct Builder {
    const Model  *m;
    ComputeGraph *g;
    TensorNode   *pos, *rope_factors;
    int32_t       n_tok, n_ctx;
    int           layer;
} Builder;

static TensorNode *weight(Builder *b, const GgufTensor *t) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(t->name.len < sizeof name ? t->name.len : sizeof name - 1),
             t->name.ptr);
    return rp_graph_weight(b->g, name, &t->view);
}

static TensorNode *optional_weight(Builder *b, const GgufTensor *t) {
    return t != NULL ? weight(b, t) : NULL;
}

static TensorNode *named(Builder *b, TensorNode *n, const char *what) {
    char name[64];
    if (b->layer < 0) return rp_node_set_name(n, what);
    snprintf(name, sizeof name, "blk.%d.%s", b->layer, what);
    return rp_node_set_name(n, name);
}

static TensorNode *norm(Builder *b, TensorNode *x, const GgufTensor *w, const char *what) {
    return named(b, rp_rms_norm(b->g, x, optional_weight(b, w), b->m->config.norm_eps), what);
}

static TensorNode *linear(Builder *b, TensorNode *x, const GgufTensor *w, const GgufTensor *bias,
                          const char *what) {
    TensorNode *y = named(b, rp_mul_mat(b->g, weight(b, w), x), what);
    return bias != NULL ? named(b, rp_add(b->g, y, weight(b, bias)), what) : y;
}

/* One of q and k: [n_embd, t] -> heads [head_dim, n_head, t], normed and rotated. */
static TensorNode *rotated(Builder *b, TensorNode *x, const GgufTensor *w, const GgufTensor *bias,
                           const GgufTensor *head_norm, int32_t n_head, const char *what) {
    const ModelConfig *c     = &b->m->config;
    const bool         local = rp_config_is_local(c, b->layer);
    TensorNode        *y     = linear(b, x, w, bias, what);
    y                        = rp_reshape(b->g, y, c->head_dim, n_head, b->n_tok, 1);
    if (head_norm != NULL) y = norm(b, y, head_norm, what);
    return named(
        b, rp_rope(b->g, y, b->pos, local ? NULL : b->rope_factors, local ? &c->rope_local : &c->rope), what);
}

/* Stores [head_dim, n_head_kv, t] into the layer's cache; returns the cache as [head_dim, n_ctx, n_head_kv].
 */
static TensorNode *cached(Builder *b, TensorNode *x, const char *which) {
    const ModelConfig *c      = &b->m->config;
    const int64_t      row    = (int64_t)c->n_head_kv * c->head_dim;
    const size_t       nb_row = rp_row_bytes(RP_F16, row), nb_head = rp_row_bytes(RP_F16, c->head_dim);
    char               name[32];
    snprintf(name, sizeof name, "%s.%d", which, b->layer);
    TensorNode *state = rp_graph_state(b->g, name, RP_F16, (int64_t[]){row, b->n_ctx, 1, 1});
    TensorNode *all   = rp_store(b->g, rp_reshape(b->g, x, row, b->n_tok, 1, 1), state, b->pos);
    named(b, all, which[0] == 'k' ? "k_store" : "v_store");
    return rp_view(b->g, all,
                   &(ViewParams){
                       .ne = {c->head_dim, b->n_ctx, c->n_head_kv, 1                        },
                       .nb = {0,           nb_row,   nb_head,      nb_row * (size_t)b->n_ctx}
    });
}

static TensorNode *attention(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ModelConfig *c = &b->m->config;
    ComputeGraph      *g = b->g;
    TensorNode        *q = rotated(b, x, l->q, l->q_bias, l->q_norm, c->n_head, "q");
    TensorNode        *k = cached(b, rotated(b, x, l->k, l->k_bias, l->k_norm, c->n_head_kv, "k"), "k");
    TensorNode        *v = cached(b, linear(b, x, l->v, l->v_bias, "v"), "v");

    const SoftMaxParams p      = {.scale  = c->attn_scale,
                                  .window = rp_config_is_local(c, b->layer) ? c->window : 0};
    TensorNode         *scores = rp_mul_mat_bound(g, k, rp_permute(g, q, 0, 2, 1, 3), b->pos, RP_BOUND_ROWS);
    TensorNode         *probs  = rp_soft_max(g, named(b, scores, "scores"), NULL, b->pos, &p);
    TensorNode         *sum =
        rp_mul_mat_bound(g, rp_transpose(g, v), named(b, probs, "probs"), b->pos, RP_BOUND_INNER);
    TensorNode *heads = rp_cast(g, rp_permute(g, named(b, sum, "weighted"), 0, 2, 1, 3), RP_F32);
    TensorNode *joined =
        rp_reshape(g, named(b, heads, "attn"), (int64_t)c->n_head * c->head_dim, b->n_tok, 1, 1);
    return linear(b, joined, l->o, l->o_bias, "attn_out");
}

static TensorNode *feed_forward(Builder *b, TensorNode *x, const LayerWeights *l) {
    TensorNode *gate = linear(b, x, l->gate, NULL, "ffn_gate");
    TensorNode *up   = linear(b, x, l->up, NULL, "ffn_up");
    const bool  gelu = (b->m->config.arch->features & ARCH_GELU) != 0;
    TensorNode *act  = named(b, gelu ? rp_gelu(b->g, gate, RP_GELU_TANH) : rp_silu(b->g, gate), "ffn_act");
    return linear(b, named(b, rp_mul(b->g, act, up), "ffn_gated"), l->down, NULL, "ffn_down");
}

static TensorNode *layer(Builder *b, TensorNode *x) {
    const LayerWeights *l = &b->m->layers[b->layer];
    TensorNode         *y = attention(b, norm(b, x, l->attn_norm, "attn_norm"), l);
    if (l->post_attn_norm != NULL) y = norm(b, y, l->post_attn_norm, "post_attn_norm");
    x = named(b, rp_add(b->g, y, x), "attn_residual");
    y = feed_forward(b, norm(b, x, l->ffn_norm, "ffn_norm"), l);
    if (l->post_ffn_norm != NULL) y = norm(b, y, l->post_ffn_norm, "post_ffn_norm");
    return named(b, rp_add(b->g, y, x), "residual");
}

static TensorNode *build(Builder *b, int32_t n_out) {
    const Model *m      = b->m;
    TensorNode  *tokens = rp_graph_input(b->g, "tokens", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
    TensorNode  *rows   = rp_graph_input(b->g, "out_rows", RP_I32, (int64_t[]){n_out, 1, 1, 1});
    TensorNode  *embd   = weight(b, m->token_embd);
    b->pos              = rp_graph_input(b->g, "pos", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
    b->rope_factors     = optional_weight(b, m->rope_factors);

    TensorNode *x = named(b, rp_get_rows(b->g, embd, tokens), "embedding");
    if ((m->config.arch->features & ARCH_EMBD_SCALE) != 0)
        x = named(b, rp_scale(b->g, x, m->config.embd_scale, 0.0f), "embedding_scaled");
    for (b->layer = 0; b->layer < m->config.n_layer; b->layer++) {
        rp_graph_set_layer(b->g, b->layer);
        x = layer(b, x);
    }
    b->layer = -1;
    rp_graph_set_layer(b->g, -1);
    x = named(b, rp_get_rows(b->g, x, rows), "out_rows_of_last");
    x = norm(b, x, m->output_norm, "output_norm");
    return named(b, rp_mul_mat(b->g, m->output == m->token_embd ? embd : weight(b, m->output), x), "logits");
}

RpStatus rp_model_graph(const Model *m, int32_t n_tok, int32_t n_ctx, int32_t n_out, ComputeGraph **out) {
    *out = NULL;
    if (n_tok < 1 || n_ctx < 1 || n_out < 1)
        return rp_fail(RP_E_ARG, "a graph over %d tokens, a context of %d and %d outputs", n_tok, n_ctx,
                       n_out);
    ComputeGraph *g = rp_graph_new();
    if (g == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    Builder        b      = {.m = m, .g = g, .n_tok = n_tok, .n_ctx = n_ctx, .layer = -1};
    TensorNode    *logits = build(&b, n_out);
    const RpStatus st     = rp_graph_finish(g, &logits, 1);
    if (st != RP_OK) {
        rp_graph_free(g);
        return st;
    }
    *out = g;
    return RP_OK;
}
