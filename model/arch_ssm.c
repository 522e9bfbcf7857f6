/* Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), as Granite 4 and Nemotron-H have it, and the short convolutions with
 * gates of LFM2. x [n_embd, t] is the normed input.
 *
 * Mamba-2:
 *     z, xbc, dt = parts of ssm_in x
 *     x, b, c    = parts of silu(convolution over tokens of xbc + bias)
 *     heads      = selective scan of x, b, c, dt, times silu(z)      [dim, n_head, t]
 *     y          = ssm_out (norm of each group of heads)
 *
 * Short convolution:
 *     b, c, v    = the thirds of in_proj x                           [n_embd, t] each
 *     y          = out_proj (c * convolution over tokens of (b * v))
 *
 * The layers have no cache. Their states are the last inputs of the convolution, "window.<layer>", and with Mamba-2 the
 * state of each channel, "ssm.<layer>", with a row for each of n_states slots (slots.h). */
#include "model/arch.h"

/* x, b and c of each token, convolved, as one column. */
static TensorNode *convolved(Builder *b, TensorNode *in, int64_t row, const LayerWeights *l) {
    const SsmConfig  *s        = &b->m->config.ssm;
    const int64_t     channels = rp_ssm_channels(s);
    const RpOpParams  p        = {.causal_conv = {.silu = 1}};
    TensorNode *const src[]    = {rp_arch_slice(b, in, row, (int64_t)s->n_head * s->dim, channels, b->n_tok, 1),
                                  rp_arch_weight(b, l->conv),
                                  rp_arch_recurrent(b, "window", channels * (b->m->config.taps - 1)),
                                  b->slots,
                                  rp_arch_optional(b, l->conv_bias),
                                  b->starts};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_CAUSAL_CONV, &p, src, 6), "ssm_conv");
}

/* The heads, [dim, n_head, t]. */
static TensorNode *scanned(Builder *b, TensorNode *x, const LayerWeights *l) {
    const SsmConfig *s   = &b->m->config.ssm;
    const int64_t    dim = s->dim, heads = s->n_head, inner = dim * heads, n = s->state, of_b = n * s->n_group,
                  channels = rp_ssm_channels(s), row = inner + channels + heads;
    TensorNode       *in    = rp_arch_linear(b, x, l->ssm_in, NULL, "ssm_in");
    TensorNode       *conv  = convolved(b, in, row, l);
    TensorNode *const src[] = {rp_arch_part(b, conv, (ColumnPart){channels, 0, dim, heads, dim}),
                               rp_arch_part(b, in, (ColumnPart){row, 0, dim, heads, dim}),
                               rp_arch_slice(b, in, row, inner + channels, heads, b->n_tok, 1),
                               rp_arch_part(b, conv, (ColumnPart){channels, inner, n, s->n_group, n}),
                               rp_arch_part(b, conv, (ColumnPart){channels, inner + of_b, n, s->n_group, n}),
                               rp_arch_weight(b, l->decay),
                               rp_arch_weight(b, l->ssm_skip),
                               rp_arch_weight(b, l->dt),
                               rp_arch_recurrent(b, "ssm", inner * n),
                               b->slots,
                               b->starts};
    return rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_SSM_SCAN, NULL, src, 11), "ssm_heads");
}

TensorNode *rp_arch_ssm(Builder *b, TensorNode *x, const LayerWeights *l) {
    const SsmConfig *s     = &b->m->config.ssm;
    const int64_t    inner = (int64_t)s->n_head * s->dim;
    TensorNode      *y     = scanned(b, x, l);
    if (l->ssm_norm != NULL) { /* one weight for each channel: the groups have weights of their own */
        y = rp_arch_norm(b, rp_reshape(b->g, y, inner / s->n_group, s->n_group, b->n_tok, 1),
                         s->n_group == 1 ? l->ssm_norm : NULL, "ssm_norm");
        if (s->n_group > 1) y = rp_arch_name_node(b, rp_mul(b->g, y, rp_arch_weight(b, l->ssm_norm)), "ssm_normed");
    }
    return rp_arch_linear(b, rp_reshape(b->g, y, inner, b->n_tok, 1, 1), l->ssm_out, NULL, "ssm_out");
}

TensorNode *rp_arch_short_conv(Builder *b, TensorNode *x, const LayerWeights *l) {
    const int64_t    n  = b->m->config.n_embd;
    const RpOpParams p  = {.causal_conv = {.silu = 0}};
    TensorNode      *in = rp_arch_linear(b, x, l->conv_in, NULL, "conv_in"), *third[3];
    for (int i = 0; i < 3; i++) third[i] = rp_arch_slice(b, in, 3 * n, i * n, n, b->n_tok, 1);
    TensorNode *const src[] = {third[2],
                               rp_arch_weight(b, l->conv),
                               rp_arch_recurrent(b, "window", n * (b->m->config.taps - 1)),
                               b->slots,
                               NULL,
                               b->starts,
                               third[0],
                               third[1]};
    TensorNode       *y     = rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_CAUSAL_CONV, &p, src, 8), "conv");
    return rp_arch_linear(b, y, l->conv_out, NULL, "conv_out");
}
