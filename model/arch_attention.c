/* Grouped-query attention, and DeepSeek's multi-head latent attention (MLA).
 *
 *     q [head_dim, n_head, t],  k and v [head_dim, n_head_kv, t],  g = n_head / n_head_kv
 *     cache[:, pos[t], :] = k[:, :, t], the same of v;  token t reads slots i <= pos[t] (with a window: its last)
 *     scores[i, t, h]  = k[:, i, h/g] . q[:, t, h]               mul_mat, RP_BOUND_ROWS: rows i <= pos[t]
 *     probs[:, t, h]   = softmax(attn_scale * scores[:, t, h])
 *     heads[:, h, t]   = sum_i probs[i, t, h] * v[:, i, h/g]     mul_mat, RP_BOUND_INNER: terms i <= pos[t]
 *     y                = wo heads
 *
 * The pass `attention` fuses scores, softmax and weighted sum into one op with online softmax. */
#include "model/arch.h"

#include "reprise/extend.h"

#include <string.h>

TensorNode *rp_arch_rotated(Builder *b, TensorNode *x, const char *what) {
    const LayerKind *k = &b->kind;
    if (k->position == POSITION_NONE) return x;
    TensorNode *y = rp_rope(b->g, x, b->pos, k->rope_factors ? b->rope_factors : NULL, &k->rope);
    return rp_arch_name_node(b, y, what);
}

/* q or k as rows [head_dim * n_head, t] -> heads [head_dim, n_head, t], normed and rotated, or the other way round. A
 * norm is over each head, or over all heads as one row. */
static TensorNode *query_or_key(Builder *b, TensorNode *y, const RpGgufTensor *w_norm, int32_t n_head,
                                const char *what) {
    const ArchRow *arch = b->m->config.arch;
    const QkNorm   norm = arch->qk_norm;
    if (norm == QK_NORM_ROW) y = rp_arch_norm(b, y, w_norm, what);
    y = rp_reshape(b->g, y, b->kind.head_dim, n_head, b->n_tok, 1);
    if (arch->norm_of_rotated) return rp_arch_norm(b, rp_arch_rotated(b, y, what), w_norm, what);
    if (norm == QK_NORM_OWN_OPTIONAL && w_norm != NULL)
        y = rp_arch_name_node(b, rp_mul(b->g, rp_arch_norm(b, y, NULL, what), rp_arch_weight(b, w_norm)), what);
    if (norm == QK_NORM_HEAD || (norm == QK_NORM_HEAD_OPTIONAL && w_norm != NULL)) y = rp_arch_norm(b, y, w_norm, what);
    return rp_arch_rotated(b, y, what);
}

static TensorNode *query(Builder *b, TensorNode *x, const LayerWeights *l) {
    return query_or_key(b, rp_arch_linear(b, x, l->q, l->q_bias, "q"), l->q_norm, b->m->config.n_head, "q");
}

/* Stores keys or values [head_dim, n_head_kv, t], and returns the cache [head_dim, n_ctx, n_head_kv]. The positions of
 * a head lie together: attention reads them in the order of memory. */
static TensorNode *cached_heads(Builder *b, TensorNode *x, const char *which) {
    return rp_arch_cached(b, rp_permute(b->g, x, 0, 2, 1, 3), b->kind.head_dim, b->kind.n_head_kv, which);
}

/* q [head_dim, t, n_head], k and v [head_dim, n_ctx, n_head_kv] -> [head_dim, n_head, t]. */
static TensorNode *attend(Builder *b, TensorNode *q, TensorNode *k, TensorNode *v, const LayerWeights *l) {
    const ModelConfig *c     = &b->m->config;
    ComputeGraph      *g     = b->g;
    TensorNode        *sinks = rp_arch_optional(b, l->sinks);
    TensorNode        *table = rp_arch_has_window_rows(b, &b->kind) ? b->window_table : b->table;
    RpSoftMaxParams    p     = {.scale = c->attn_scale, .window = b->kind.window};
    const RpOpParams   fused = {
          .attention = {.scale = p.scale, .window = p.window, .block = b->block}
    };
    /* A cache that is quantised or has blocks has only the fused op: see check_unfused in graph/pass.c. */
    if (b->kv_type != RP_F16 || b->block != 0)
        return rp_graph_op(g, RP_OP_ATTENTION, &fused,
                           (TensorNode *const[]){q, k, v, b->reach, sinks, NULL, b->attn_cap, table, b->seq}, 9);
    TensorNode *scores = rp_mul_mat_bound(g, k, q, b->reach, RP_BOUND_ROWS);
    rp_arch_name_node(b, scores, "scores");
    if (b->attn_cap != NULL) {
        scores  = rp_arch_soft_cap(b, scores, p.scale, b->attn_cap, "scores_capped");
        p.scale = 1.0f;
    }
    TensorNode *probs = rp_soft_max_sinks(g, scores, NULL, b->reach, sinks, &p);
    rp_arch_name_node(b, probs, "probs");
    TensorNode *sum = rp_mul_mat_bound(g, rp_transpose(g, v), probs, b->reach, RP_BOUND_INNER);
    rp_arch_name_node(b, sum, "weighted");
    return rp_cast(g, rp_permute(g, sum, 0, 2, 1, 3), RP_F32);
}

/* n heads of each token [head_dim * n, t] -> those of each sequence [head_dim, t / n_seq, n, n_seq]. */
static TensorNode *of_sequences(Builder *b, TensorNode *x, int64_t n) {
    const int64_t n_seq = b->training->n_seq;
    return rp_permute(b->g, rp_reshape(b->g, x, b->kind.head_dim, n, b->n_tok / n_seq, n_seq), 0, 2, 1, 3);
}

/* The same for training on whole sequences. A window at least as long as the sequences has no effect. */
static TensorNode *attend_sequences(Builder *b, TensorNode *q, TensorNode *k, TensorNode *v, const LayerWeights *l) {
    const ModelConfig      *c      = &b->m->config;
    const int32_t           window = b->kind.window < b->n_tok / b->training->n_seq ? b->kind.window : 0;
    const RpAttentionParams p      = {.scale = c->attn_scale, .window = window, .causal = 1};
    return rp_attention(b->g, of_sequences(b, q, c->n_head), of_sequences(b, k, b->kind.n_head_kv),
                        of_sequences(b, v, b->kind.n_head_kv), NULL, rp_arch_optional(b, l->sinks), &p);
}

TensorNode *rp_arch_slice(Builder *b, TensorNode *x, int64_t row_len, int64_t from, int64_t ne0, int64_t ne1,
                          int64_t ne2) {
    const size_t nb_row = rp_row_bytes(RP_F32, row_len);
    return rp_view(b->g, x,
                   &(RpViewParams){
                       .ne     = {ne0, ne1,    ne2,                  1                           },
                       .nb     = {0,   nb_row, nb_row * (size_t)ne1, nb_row * (size_t)(ne1 * ne2)},
                       .offset = rp_row_bytes(RP_F32, from)
    });
}

/* Queries that come with a gate for each head: [head_dim, 2, n_head, t], the query first. */
static TensorNode *gated_query(Builder *b, TensorNode *x, const LayerWeights *l, TensorNode **gate) {
    const ModelConfig *c    = &b->m->config;
    const int64_t      head = b->kind.head_dim;
    TensorNode        *both = rp_arch_linear(b, x, l->q, l->q_bias, "q_gate");
    TensorNode        *q    = rp_arch_slice(b, both, 2 * head, 0, head, c->n_head, b->n_tok);
    *gate                   = rp_arch_slice(b, both, 2 * head, head, head, c->n_head, b->n_tok);
    if (c->arch->qk_norm == QK_NORM_HEAD) q = rp_arch_norm(b, q, l->q_norm, "q");
    return rp_arch_rotated(b, q, "q");
}

/* In a step of one token the product is computed a second time by another node, so that one kernel can compute queries,
 * keys and values (pass qkv). */
static TensorNode *again(Builder *b, TensorNode *product) {
    const bool plain = strcmp(rp_node_op_name(product), "mul_mat") == 0;
    if (!plain || b->n_tok > 1 || b->training != NULL || b->products != NULL) return product;
    TensorNode *source[2];
    for (int i = 0; i < 2; i++) source[i] = (TensorNode *)(uintptr_t)rp_node_source(product, i);
    return rp_arch_name_node(b, rp_mul_mat(b->g, source[0], source[1]), "v");
}

/* Values: with value_norm each head is normed. Without a matrix of their own they are `key`, keys before their norm. */
static TensorNode *value(Builder *b, TensorNode *x, TensorNode *key, const LayerWeights *l) {
    const LayerKind *k = &b->kind;
    TensorNode      *v = l->v != NULL ? rp_arch_linear(b, x, l->v, l->v_bias, "v") : again(b, key);
    v                  = rp_reshape(b->g, v, k->head_dim, k->n_head_kv, b->n_tok, 1);
    return b->m->config.arch->value_norm ? rp_arch_norm(b, v, NULL, "v") : v;
}

typedef struct KeysValues {
    TensorNode *k, *v; /* of the tokens where sequences are trained and in encoders, else all of the cache */
} KeysValues;

static KeysValues keys_values(Builder *b, TensorNode *x, const LayerWeights *l) {
    TensorNode **cached = b->caches != NULL ? &b->caches[2 * b->kind.kv_layer] : NULL;
    if (b->kind.kv_layer != b->layer) return (KeysValues){cached[0], cached[1]};
    TensorNode *key    = rp_arch_linear(b, x, l->k, l->k_bias, "k");
    KeysValues  kv     = {.k = query_or_key(b, key, l->k_norm, b->kind.n_head_kv, "k")};
    const bool  caches = b->training == NULL && !b->m->config.bidirectional;
    if (caches) kv.k = cached_heads(b, kv.k, "k");
    kv.v = value(b, x, key, l);
    if (!caches) return kv;
    kv.v      = cached_heads(b, kv.v, "v");
    cached[0] = kv.k, cached[1] = kv.v;
    return kv;
}

TensorNode *rp_arch_attention(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ModelConfig *c     = &b->m->config;
    ComputeGraph      *g     = b->g;
    const bool         train = b->training != NULL;
    TensorNode        *gate  = NULL;
    TensorNode        *q     = c->arch->attn_gate == ATTN_GATE_OF_QUERY ? gated_query(b, x, l, &gate) : query(b, x, l);
    const KeysValues   kv    = keys_values(b, x, l);
    if (b->temperature != NULL) q = rp_arch_name_node(b, rp_mul(g, q, b->temperature), "q_scaled");

    TensorNode *heads = train              ? attend_sequences(b, q, kv.k, kv.v, l)
                        : c->bidirectional ? rp_arch_attend_all(b, q, kv.k, kv.v, l)
                                           : attend(b, rp_permute(g, q, 0, 2, 1, 3), kv.k, kv.v, l);
    if (l->attn_gate != NULL)
        gate = rp_reshape(g, rp_arch_linear(b, x, l->attn_gate, NULL, "attn_gate"), b->kind.head_dim, c->n_head,
                          b->n_tok, 1);
    if (gate != NULL) {
        gate  = rp_arch_name_node(b, rp_sigmoid(g, gate), "attn_open");
        heads = rp_mul(g, rp_arch_name_node(b, heads, "attn_heads"), gate);
    }
    TensorNode *joined =
        rp_reshape(g, rp_arch_name_node(b, heads, "attn"), (int64_t)c->n_head * b->kind.head_dim, b->n_tok, 1, 1);
    return rp_arch_linear(b, joined, l->o, l->o_bias, "attn_out");
}

/* Scores over both caches, c [kv_lora, n_ctx] and r [rope, n_ctx] of one head each, and the weighted sums of c:
 * q_latent [kv_lora, t, n_head], q_rope [rope, n_head, t], latent [kv_lora, t], k_rope [rope, t]
 * -> [kv_lora, t, n_head]. */
static TensorNode *attend_latent(Builder *b, TensorNode *q_latent, TensorNode *q_rope, TensorNode *latent,
                                 TensorNode *k_rope) {
    const ModelConfig *c       = &b->m->config;
    ComputeGraph      *g       = b->g;
    const int64_t      kv_lora = c->mla.kv_lora, rope = c->rope.n_dims;
    TensorNode        *latents = rp_arch_cached(b, latent, kv_lora, 1, "latent");
    TensorNode        *keys    = rp_arch_cached(b, k_rope, rope, 1, "k_rope");

    const RpOpParams fused = {
        .latent_attention = {.scale = c->attn_scale, .block = b->block}
    };
    if (b->block != 0)
        return rp_graph_op(
            g, RP_OP_LATENT_ATTENTION, &fused,
            (TensorNode *const[]){q_latent, latents, keys, b->pos, rp_permute(g, q_rope, 0, 2, 1, 3), b->table, b->seq},
            7);
    TensorNode *scores = rp_mul_mat_bound(g, latents, q_latent, b->pos, RP_BOUND_ROWS);
    rp_arch_name_node(b, scores, "scores_latent");
    TensorNode *more = rp_mul_mat_bound(g, keys, rp_permute(g, q_rope, 0, 2, 1, 3), b->pos, RP_BOUND_ROWS);
    rp_arch_name_node(b, more, "scores_rope");
    scores                      = rp_arch_name_node(b, rp_add(g, scores, more), "scores");
    const RpSoftMaxParams p     = {.scale = c->attn_scale};
    TensorNode           *probs = rp_arch_name_node(b, rp_soft_max(g, scores, NULL, b->pos, &p), "probs");
    return rp_mul_mat_bound(g, rp_transpose(g, latents), probs, b->pos, RP_BOUND_INNER);
}

/* The same for training on whole sequences, with a mask instead of positions: -> [kv_lora, t / n_seq, n_head,
 * n_seq]. */
static TensorNode *attend_latent_sequences(Builder *b, TensorNode *q_latent, TensorNode *q_rope, TensorNode *latent,
                                           TensorNode *k_rope) {
    const ModelConfig    *c     = &b->m->config;
    ComputeGraph         *g     = b->g;
    const int64_t         n_seq = b->training->n_seq, seq = b->n_tok / n_seq, rope = c->rope.n_dims;
    const RpSoftMaxParams p = {.scale = c->attn_scale};
    if (b->training->mask == NULL)
        b->training->mask = rp_graph_state(g, "causal_mask", RP_F32, (int64_t[]){seq, seq, 1, 1});
    latent             = rp_reshape(g, latent, c->mla.kv_lora, seq, 1, n_seq);
    k_rope             = rp_reshape(g, k_rope, rope, seq, 1, n_seq);
    q_latent           = rp_permute(g, rp_reshape(g, q_latent, c->mla.kv_lora, seq, n_seq, c->n_head), 0, 1, 3, 2);
    q_rope             = rp_reshape(g, rp_cast(g, q_rope, RP_F32), rope, c->n_head, seq, n_seq);
    q_rope             = rp_permute(g, q_rope, 0, 2, 1, 3);
    TensorNode *scores = rp_add(g, rp_mul_mat(g, latent, q_latent), rp_mul_mat(g, k_rope, q_rope));
    TensorNode *probs  = rp_soft_max(g, rp_arch_name_node(b, scores, "scores"), b->training->mask, NULL, &p);
    rp_arch_name_node(b, probs, "probs");
    return rp_mul_mat(g, rp_cast(g, rp_transpose(g, latent), RP_F32), probs);
}

/* DeepSeek-V2 (arXiv:2405.04434, section 2.1). The cache holds one latent vector c[i] and one rotated key
 * r[i] a token, for all heads. A head's key would be (K_h c[i], r[i]) and its value V_h c[i]. K_h is applied
 * to the query instead:
 *     q_nope . (K_h c[i]) = (K_h^T q_nope) . c[i]              q_latent = K_h^T q_nope, [kv_lora, t, h]
 *     scores[i, t, h]  = q_latent[:, t, h] . c[i] + q_rope[:, t, h] . r[i]
 *     heads[:, h, t]   = V_h (sum_i probs[i, t, h] * c[i])
 * So no key or value of a head is ever formed, and the cache is kv_lora + n_rope elements a token. */
TensorNode *rp_arch_attention_mla(Builder *b, TensorNode *x, const LayerWeights *l) {
    const ModelConfig *c    = &b->m->config;
    const MlaConfig   *m    = &c->mla;
    ComputeGraph      *g    = b->g;
    const int64_t      rope = c->rope.n_dims, head = m->nope + rope, n_head = c->n_head;

    /* queries [nope + rope, n_head, t], through a low rank where the model has q_a */
    TensorNode *q = x;
    if (l->q_a != NULL) q = rp_arch_norm(b, rp_arch_linear(b, x, l->q_a, NULL, "q_a"), l->q_a_norm, "q_a_norm");
    q = rp_reshape(g, rp_arch_linear(b, q, l->q, NULL, "q"), head, n_head, b->n_tok, 1);
    if (b->temperature != NULL) q = rp_arch_name_node(b, rp_mul(g, q, b->temperature), "q_scaled");
    TensorNode *q_rope   = rp_arch_rotated(b, rp_arch_slice(b, q, head, m->nope, rope, n_head, b->n_tok), "q_rope");
    TensorNode *q_nope   = rp_permute(g, rp_arch_slice(b, q, head, 0, m->nope, n_head, b->n_tok), 0, 2, 1, 3);
    TensorNode *q_latent = rp_mul_mat(g, rp_arch_matrix(b, l->k_b), q_nope);
    rp_arch_name_node(b, q_latent, "q_latent");

    TensorNode   *kv     = rp_arch_linear(b, x, l->kv_a, NULL, "kv_a");
    const int64_t kv_row = m->kv_lora + rope;
    TensorNode   *latent =
        rp_arch_norm(b, rp_arch_slice(b, kv, kv_row, 0, m->kv_lora, b->n_tok, 1), l->kv_a_norm, "latent");
    TensorNode *k_rope = rp_arch_rotated(b, rp_arch_slice(b, kv, kv_row, m->kv_lora, rope, 1, b->n_tok), "k_rope");
    if (b->kind.position == POSITION_NONE) k_rope = rp_cast(g, k_rope, RP_F32); /* a slice has gaps */
    k_rope          = rp_reshape(g, k_rope, rope, b->n_tok, 1, 1);
    TensorNode *sum = b->training != NULL ? attend_latent_sequences(b, q_latent, q_rope, latent, k_rope)
                                          : attend_latent(b, q_latent, q_rope, latent, k_rope);
    rp_arch_name_node(b, sum, "weighted");
    TensorNode *values = rp_arch_name_node(b, rp_mul_mat(g, rp_arch_matrix(b, l->v_b), sum), "values");
    TensorNode *heads  = values; /* of one token they are adjacent already */
    if (b->n_tok > 1) heads = rp_arch_name_node(b, rp_cast(g, rp_permute(g, values, 0, 2, 1, 3), RP_F32), "attn");
    TensorNode *joined = rp_reshape(g, heads, n_head * m->value, b->n_tok, 1, 1);
    return rp_arch_linear(b, joined, l->o, NULL, "attn_out");
}
