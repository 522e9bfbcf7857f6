/* The kind of each layer, from the pattern of the family and the arrays of the file. */
#include "model/config.h"

/* The attention of layers that predict further tokens: latent in families that have it, else full. ATTENTION_NONE: the
 * family has no layers with either. */
static AttentionKind next_attention(const ModelConfig *c) {
    const LayerPattern *p = &c->layers;
    if (p->attention.kind == ATTENTION_LATENT) return ATTENTION_LATENT;
    const bool full = p->attention.kind == ATTENTION_FULL || p->attention.nth == ATTENTION_FULL;
    return full ? ATTENTION_FULL : ATTENTION_NONE;
}

bool rp_config_has_windows(const ModelConfig *c) {
    for (int i = 0; i < c->n_layer; i++)
        if (rp_config_layer(c, i).window > 0) return true;
    return false;
}

bool rp_config_may_have_mtp(const ModelConfig *c) {
    return c->n_layer_next > 0 && next_attention(c) != ATTENTION_NONE && c->window == 0 && c->heads_kv == NULL &&
           c->ff_lengths == NULL && !c->bidirectional && !c->arch->one_half && !c->arch->parallel_ssm &&
           !c->arch->layer_embd && !c->arch->norm_of_sum;
}

/* The layer is an n-th one: (layer + 1) % n == 0. */
static bool is_nth(int layer, int32_t n) { return n > 0 && (layer + 1) % n == 0; }

/* The same, or with `first` layer % n == 0. */
static bool is_other(const LayerPattern *p, int layer) {
    return p->attention.first ? p->attention.n > 0 && layer % p->attention.n == 0 : is_nth(layer, p->attention.n);
}

LayerKind rp_config_layer(const ModelConfig *c, int layer) {
    const LayerPattern *p = &c->layers;
    LayerKind           k = {
                  .attention = is_other(p, layer) ? p->attention.nth : p->attention.kind,
                  .position  = is_nth(layer, p->position.n) ? p->position.nth : p->position.kind,
    };
    if (c->window_layers != NULL && layer < c->n_layer)
        k.attention = rp_gguf_number_at(c->window_layers, (uint64_t)layer) != 0.0 ? ATTENTION_WINDOW : ATTENTION_FULL;
    if (c->delta_layers != NULL && layer < c->n_layer)
        k.attention = rp_gguf_number_at(c->delta_layers, (uint64_t)layer) != 0.0 ? ATTENTION_DELTA : ATTENTION_FULL;
    if (layer >= c->n_layer) k.attention = next_attention(c);
    k.n_head_kv = c->heads_kv != NULL ? (int32_t)rp_gguf_number_at(c->heads_kv, (uint64_t)layer) : c->n_head_kv;
    if (k.n_head_kv == 0) k.attention = p->attention.without_heads;
    if (k.attention == ATTENTION_WINDOW && c->window == 0) k.attention = ATTENTION_FULL;
    if (k.attention == ATTENTION_WINDOW) k.window = c->arch->assistant ? c->window - 1 : c->window;
    if (c->experts.n > 0 && layer >= p->feed_forward.n_dense) k.feed_forward = p->feed_forward.kind;
    const bool window = k.attention == ATTENTION_WINDOW;
    if (c->arch->full_unrotated && c->window > 0 && !window) k.position = POSITION_NONE;
    k.head_dim = window && c->arch->window_heads ? c->head_dim_window : c->head_dim;
    k.n_ff     = c->ff_lengths != NULL ? (int32_t)rp_gguf_number_at(c->ff_lengths, (uint64_t)layer) : c->n_ff;
    k.kv_layer = layer;
    if (c->arch->one_half && k.n_ff > 0) k.attention = ATTENTION_NONE;
    if (c->arch->one_half && k.n_ff == 0) k.feed_forward = FEED_FORWARD_NONE;
    if (c->n_layer_kv > 1 && layer >= c->n_layer_kv && layer < c->n_layer)
        k.kv_layer = c->n_layer_kv - (window ? 2 : 1);
    if (c->arch->assistant) k.kv_layer = c->n_layer + (window ? 0 : 1);
    k.rope         = window ? c->rope_window : c->rope;
    k.rope.mode    = k.position == POSITION_NEOX ? RP_ROPE_NEOX : RP_ROPE_NORM;
    k.rope_factors = !(window && c->arch->window_rope);
    return k;
}
