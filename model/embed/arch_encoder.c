/* The parts of the graph that only encoders have: embeddings of types and positions, and attention to all tokens.
 *
 *     x = norm(token_embd[token] + token_types[type] + position_embd[position])
 *     a layer of BERT:  x = norm(x + attention(x));  x = norm(x + feed_forward(x))
 *
 * A text is one run: there is no cache. Token t attends to i <= last[t], which is the last token of the text; a window
 * is a mask, which is added to the scores. */
#include "model/arch.h"

TensorNode *rp_arch_norm_of_sum(Builder *b, TensorNode *x, TensorNode *f, const RpGgufTensor *w,
                                const RpGgufTensor *bias, const char *what) {
    return rp_arch_normed(b, rp_add(b->g, f, x), (ArchNorm){.w = w, .bias = bias}, what);
}

TensorNode *rp_arch_encoder_embd(Builder *b, TensorNode *x) {
    const EmbedWeights *e = &b->m->embed;
    if (e->types != NULL) {
        TensorNode *types = rp_graph_input(b->g, "types", RP_I32, (int64_t[]){b->n_tok, 1, 1, 1});
        x                 = rp_add(b->g, x, rp_get_rows(b->g, rp_arch_weight(b, e->types), types));
    }
    if (e->positions != NULL) x = rp_add(b->g, x, rp_get_rows(b->g, rp_arch_weight(b, e->positions), b->pos));
    if (e->norm == NULL && !b->m->config.arch->embd_unit) return x;
    return rp_arch_normed(b, x, (ArchNorm){.w = e->norm, .bias = e->norm_bias}, "embedding_norm");
}

void rp_arch_encoder_inputs(Builder *b) {
    const int64_t n = b->n_tok;
    b->last         = rp_graph_input(b->g, "last", RP_I32, (int64_t[]){n, 1, 1, 1});
    for (int i = 0; i < b->m->config.n_layer && b->mask == NULL; i++) {
        const int32_t window = rp_config_layer(&b->m->config, i).window;
        if (window > 0 && window / 2 + 1 < n) b->mask = rp_graph_input(b->g, "mask", RP_F32, (int64_t[]){n, n, 1, 1});
    }
}

/* n heads of each token [head_dim * n, t] -> [head_dim, t, n] */
static TensorNode *by_heads(Builder *b, TensorNode *x, int64_t n) {
    return rp_permute(b->g, rp_reshape(b->g, x, b->kind.head_dim, n, b->n_tok, 1), 0, 2, 1, 3);
}

TensorNode *rp_arch_attend_all(Builder *b, TensorNode *q, TensorNode *k, TensorNode *v, const LayerWeights *l) {
    const RpOpParams  p         = {.attention = {.scale = b->m->config.attn_scale}};
    TensorNode       *mask      = b->kind.window > 0 ? b->mask : NULL;
    TensorNode *const sources[] = {by_heads(b, q, b->m->config.n_head), by_heads(b, k, b->kind.n_head_kv),
                                   by_heads(b, v, b->kind.n_head_kv),   b->last,
                                   rp_arch_optional(b, l->sinks),       mask};
    return rp_graph_op(b->g, RP_OP_ATTENTION, &p, sources, 6);
}
