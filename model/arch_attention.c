/* Attention with grouped heads, and DeepSeek's latent attention. */
#include "model/arch.h"

/* One of q and k: [n_embd, t] -> heads [head_dim, n_head, t], normed and rotated. */
static TensorNode *rotated(Builder *b, TensorNode *x, const GgufTensor *w, const GgufTensor *bias,
                           const GgufTensor *w_norm, int32_t n_head, const char *what) {
    const ModelConfig *c     = &b->m->config;
    const bool         local = rp_config_is_local(c, b->layer);
    const bool         own   = local && (c->arch->features & ARCH_LOCAL_ROPE) != 0;
    const bool         whole = (c->arch->features & ARCH_QK_NORM_FULL) != 0;
    TensorNode        *y     = rp_arch_linear(b, x, w, bias, what);
    if (w_norm != NULL && whole) y = rp_arch_norm(b, y, w_norm, what);
    y = rp_reshape(b->g, y, c->head_dim, n_head, b->n_tok, 1);
    if (w_norm != NULL && !whole) y = rp_arch_norm(b, y, w_norm, what);
    return rp_arch_name_node(
        b, rp_rope(b->g, y, b->pos, own ? NULL : b->rope_factors, own ? &c->rope_local : &c->rope), what);
}

/* A cache [row, n_ctx] as heads [dim, n_ctx, n_head]. */
static TensorNode *as_heads(Builder *b, TensorNode *cache, int64_t dim, int64_t n_head) {
    const size_t nb_row = rp_row_bytes(b->kv_type, dim * n_head);
    return rp_view(b->g, cache,
                   &(ViewParams){
                       .ne = {dim,     b->n_ctx,                n_head, 1                        },
                       .nb = { 0, nb_row, rp_row_bytes(b->kv_type,   dim), nb_row * (size_t)b->n_ctx}
    });
}

/* [head_dim, n_head_kv, t] into the layer's cache, which is returned as [head_dim, n_ctx, n_head_kv]. */
static TensorNode *cached_heads(Builder *b, TensorNode *x, const char *which) {
    const ModelConfig *c     = &b->m->config;
    const int64_t      row   = (int64_t)c->n_head_kv * c->head_dim;
    TensorNode        *cache = rp_arch_cached(b, rp_reshape(b->g, x, row, b->n_tok, 1, 1), row, which);
    return as_heads(b, cache, c->head_dim, c->n_head_kv);
}

/* From q [head_dim, t, n_head], k and v [head_dim, n_ctx, n_head_kv] to [head_dim, n_head, t]. */
static TensorNode *attend(Builder *b, TensorNode *q, TensorNode *k, TensorNode *v, const LayerWeights *l) {
    const ModelConfig  *c     = &b->m->config;
    ComputeGraph       *g     = b->g;
    TensorNode         *sinks = rp_arch_optional(b, l->sinks);
    const SoftMaxParams p     = {.scale  = c->attn_scale,
                                 .window = rp_config_is_local(c, b->layer) ? c->window : 0};
    if (b->kv_type != RP_F16) /* has no other form: see check_unfused in graph/pass.c */
        return rp_attention(g, q, k, v, b->pos, sinks,
                            &(AttentionParams){.scale = p.scale, .window = p.window});
    TensorNode *scores = rp_mul_mat_bound(g, k, q, b->pos, RP_BOUND_ROWS);
    rp_arch_name_node(b, scores, "scores");
    TensorNode *probs = rp_soft_max_sinks(g, scores, NULL, b->pos, sinks, &p);
    rp_arch_name_node(b, probs, "probs");
    TensorNode *sum = rp_mul_mat_bound(g, rp_transpose(g, v), probs, b->pos, RP_BOUND_INNER);
    rp_arch_name_node(b, sum, "weighted");
    return rp_cast(g, rp_permute(g, sum, 0, 2, 1, 3), RP_F32);
}

TensorNode *rp_arch_attention(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ModelConfig *c = &b->m->config;
    ComputeGraph      *g = b->g;
    TensorNode        *q = rotated(b, x, l->q, l->q_bias, l->q_norm, c->n_head, "q");
    TensorNode        *k = cached_heads(b, rotated(b, x, l->k, l->k_bias, l->k_norm, c->n_head_kv, "k"), "k");
    TensorNode        *v = cached_heads(b, rp_arch_linear(b, x, l->v, l->v_bias, "v"), "v");

    TensorNode *heads = attend(b, rp_permute(g, q, 0, 2, 1, 3), k, v, l);
    TensorNode *joined =
        rp_reshape(g, rp_arch_name_node(b, heads, "attn"), (int64_t)c->n_head * c->head_dim, b->n_tok, 1, 1);
    return rp_arch_linear(b, joined, l->o, l->o_bias, "attn_out");
}

/* `ne0` elements from element `from` of each row of x, as rows [ne0, ne1, ne2] of f32. */
static TensorNode *part(Builder *b, TensorNode *x, int64_t whole, int64_t from, int64_t ne0, int64_t ne1,
                        int64_t ne2) {
    const size_t nb_row = rp_row_bytes(RP_F32, whole);
    return rp_view(b->g, x,
                   &(ViewParams){
                       .ne     = {ne0, ne1,    ne2,                  1                           },
                       .nb     = {0,   nb_row, nb_row * (size_t)ne1, nb_row * (size_t)(ne1 * ne2)},
                       .offset = rp_row_bytes(RP_F32, from)
    });
}

/* DeepSeek-V2 (arXiv:2405.04434, 2.1) with the keys' expansion moved to the queries: all heads share one key
 * and value, the latent vector, and one rotated key. */
TensorNode *rp_arch_attention_mla(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ModelConfig *c    = &b->m->config;
    const MlaConfig   *m    = &c->mla;
    ComputeGraph      *g    = b->g;
    const int64_t      rope = c->rope.n_dims, head = m->nope + rope, n_head = c->n_head;

    TensorNode *q = x;
    if (l->q_a != NULL)
        q = rp_arch_norm(b, rp_arch_linear(b, x, l->q_a, NULL, "q_a"), l->q_a_norm, "q_a_norm");
    q = rp_reshape(g, rp_arch_linear(b, q, l->q, NULL, "q"), head, n_head, b->n_tok, 1);
    TensorNode *q_rope =
        rp_rope(g, part(b, q, head, m->nope, rope, n_head, b->n_tok), b->pos, NULL, &c->rope);
    rp_arch_name_node(b, q_rope, "q_rope");
    TensorNode *q_nope   = rp_permute(g, part(b, q, head, 0, m->nope, n_head, b->n_tok), 0, 2, 1, 3);
    TensorNode *q_latent = rp_mul_mat(g, rp_arch_weight(b, l->k_b), q_nope);
    rp_arch_name_node(b, q_latent, "q_latent");

    TensorNode   *kv     = rp_arch_linear(b, x, l->kv_a, NULL, "kv_a");
    const int64_t kv_row = m->kv_lora + rope;
    TensorNode   *latent =
        rp_arch_norm(b, part(b, kv, kv_row, 0, m->kv_lora, b->n_tok, 1), l->kv_a_norm, "latent");
    TensorNode *k_rope =
        rp_rope(g, part(b, kv, kv_row, m->kv_lora, rope, 1, b->n_tok), b->pos, NULL, &c->rope);
    k_rope              = rp_reshape(g, rp_arch_name_node(b, k_rope, "k_rope"), rope, b->n_tok, 1, 1);
    TensorNode *latents = as_heads(b, rp_arch_cached(b, latent, m->kv_lora, "latent"), m->kv_lora, 1);
    TensorNode *keys    = as_heads(b, rp_arch_cached(b, k_rope, rope, "k_rope"), rope, 1);

    TensorNode *scores = rp_mul_mat_bound(g, latents, q_latent, b->pos, RP_BOUND_ROWS);
    rp_arch_name_node(b, scores, "scores_latent");
    TensorNode *more = rp_mul_mat_bound(g, keys, rp_permute(g, q_rope, 0, 2, 1, 3), b->pos, RP_BOUND_ROWS);
    rp_arch_name_node(b, more, "scores_rope");
    scores                    = rp_arch_name_node(b, rp_add(g, scores, more), "scores");
    const SoftMaxParams p     = {.scale = c->attn_scale};
    TensorNode         *probs = rp_arch_name_node(b, rp_soft_max(g, scores, NULL, b->pos, &p), "probs");
    TensorNode         *sum   = rp_mul_mat_bound(g, rp_transpose(g, latents), probs, b->pos, RP_BOUND_INNER);
    rp_arch_name_node(b, sum, "weighted");
    TensorNode *values = rp_arch_name_node(b, rp_mul_mat(g, rp_arch_weight(b, l->v_b), sum), "values");
    TensorNode *heads  = rp_cast(g, rp_permute(g, values, 0, 2, 1, 3), RP_F32);
    TensorNode *joined =
        rp_reshape(g, rp_arch_name_node(b, heads, "attn"), n_head * m->value, b->n_tok, 1, 1);
    return rp_arch_linear(b, joined, l->o, NULL, "attn_out");
}
