/* Gated delta nets (Yang et al. 2024, arXiv:2412.06464), as Qwen3-Next has them. x [n_embd, t] is the normed input.
 *
 *     qkv      = silu(convolution over tokens of (wqkv x))      q, k [dim, n_key, t], v [dim, n_head, t]
 *     heads    = gated delta rule of q, k, v, alpha, beta       [dim, n_head, t]
 *     y        = wo (norm(heads) * silu(wz x))
 *
 * The layer has no cache. Its state is the last inputs of the convolution, "window.<layer>", and a matrix for each
 * head, "delta.<layer>". Both have a row for each of n_states slots; the input "slots" says which row is read before
 * the first token, and where the state after each token goes (I4). */
#include "model/arch.h"

typedef struct Gates {
    TensorNode *alpha, *beta; /* [n0, n1, t], n0 * n1 = n_head */
} Gates;

/* In one matrix, the rows of each key head are those of beta, then those of alpha, of its value heads. */
static Gates gates_of(Builder *b, TensorNode *x, const LayerWeights *l) {
    const DeltaConfig *d = &b->m->config.delta;
    if (l->beta_alpha == NULL) {
        TensorNode *beta  = rp_arch_linear(b, x, l->beta, NULL, "delta_beta");
        TensorNode *alpha = rp_arch_linear(b, x, l->alpha, NULL, "delta_alpha");
        return (Gates){.alpha = rp_reshape(b->g, alpha, d->n_head, 1, b->n_tok, 1),
                       .beta  = rp_reshape(b->g, beta, d->n_head, 1, b->n_tok, 1)};
    }
    const int64_t    n      = d->n_head / d->n_key;
    const ColumnPart betas  = {2 * (int64_t)d->n_head, 0, n, d->n_key, 2 * n},
                     alphas = {2 * (int64_t)d->n_head, n, n, d->n_key, 2 * n};
    TensorNode *both        = rp_arch_linear(b, x, l->beta_alpha, NULL, "delta_gates");
    return (Gates){.alpha = rp_arch_part(b, both, alphas), .beta = rp_arch_part(b, both, betas)};
}

/* The convolved q, k and v, as one column for each token. qkv: the product. */
static TensorNode *convolved(Builder *b, TensorNode *qkv, const LayerWeights *l) {
    const DeltaConfig *d        = &b->m->config.delta;
    const int64_t      channels = rp_delta_channels(d);
    const RpOpParams   p        = {.causal_conv = {.silu = 1}};
    TensorNode *const  src[]    = {qkv,
                                   rp_arch_weight(b, l->conv),
                                   rp_arch_recurrent(b, "window", channels * (b->m->config.taps - 1)),
                                   b->slots,
                                   NULL,
                                   b->starts};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_CAUSAL_CONV, &p, src, 6), "delta_conv");
}

/* q, k and v are parts of one column. */
static TensorNode *delta_rule(Builder *b, TensorNode *qkv, const Gates *by, const LayerWeights *l) {
    const ModelConfig *c   = &b->m->config;
    const DeltaConfig *d   = &c->delta;
    const int64_t      dim = d->dim, row = rp_delta_channels(d), keys = dim * d->n_key;
    const RpOpParams   p = {
          .gated_delta = {.eps = c->norm_eps, .grouped = c->arch->joint_gates}
    };
    TensorNode *const src[] = {rp_arch_part(b, qkv, (ColumnPart){row, 0, dim, d->n_key, dim}),
                               rp_arch_part(b, qkv, (ColumnPart){row, keys, dim, d->n_key, dim}),
                               rp_arch_part(b, qkv, (ColumnPart){row, 2 * keys, dim, d->n_head, dim}),
                               by->alpha,
                               by->beta,
                               rp_arch_weight(b, l->decay),
                               rp_arch_weight(b, l->dt),
                               rp_arch_recurrent(b, "delta", dim * dim * d->n_head),
                               b->slots,
                               b->starts};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_GATED_DELTA, &p, src, 10), "delta_heads");
}

TensorNode *rp_arch_delta(Builder *b, TensorNode *x, const LayerWeights *l) {
    const DeltaConfig *d    = &b->m->config.delta;
    TensorNode        *qkv  = rp_arch_linear(b, x, l->delta_qkv, NULL, "delta_qkv");
    TensorNode        *gate = rp_arch_linear(b, x, l->delta_gate, NULL, "delta_gate");
    const Gates        by   = gates_of(b, x, l); /* all products before the convolution, so that a pass can join them */
    qkv                     = convolved(b, qkv, l);
    TensorNode *y           = rp_arch_norm(b, delta_rule(b, qkv, &by, l), l->delta_norm, "delta_norm");
    gate = rp_reshape(b->g, rp_arch_name_node(b, rp_silu(b->g, gate), "delta_open"), d->dim, d->n_head, b->n_tok, 1);
    y    = rp_arch_name_node(b, rp_mul(b->g, gate, y), "delta_gated");
    y    = rp_reshape(b->g, y, (int64_t)d->dim * d->n_head, b->n_tok, 1, 1);
    return rp_arch_linear(b, y, l->delta_out, NULL, "delta_out");
}
