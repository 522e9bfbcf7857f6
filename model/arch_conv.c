/* Short convolutions with gates, as LFM2 has them. x [n_embd, t] is the normed input.
 *
 *     b, c, v = the thirds of in_proj x                         [n_embd, t] each
 *     y       = out_proj (c * convolution over tokens of (b * v))
 *
 * The state is what the convolution has seen last, "window.<layer>", with a row for each of n_states slots
 * (slots.h). */
#include "model/arch.h"

TensorNode *rp_arch_short_conv(Builder *b, TensorNode *x, const LayerWeights *l) {
    const int64_t    n  = b->m->config.n_embd;
    const RpOpParams p  = {.causal_conv = {.silu = 0}};
    TensorNode      *in = rp_arch_linear(b, x, l->conv_in, NULL, "conv_in"), *third[3];
    for (int i = 0; i < 3; i++) third[i] = rp_arch_slice(b, in, 3 * n, i * n, n, b->n_tok, 1);
    TensorNode       *gated = rp_arch_name_node(b, rp_mul(b->g, third[0], third[2]), "conv_gated");
    TensorNode *const src[] = {gated, rp_arch_weight(b, l->conv),
                               rp_arch_recurrent(b, "window", n * (b->m->config.taps - 1)), b->slots};
    TensorNode       *y     = rp_arch_name_node(b, rp_graph_op(b->g, RP_OP_CAUSAL_CONV, &p, src, 4), "conv");
    y                       = rp_arch_name_node(b, rp_mul(b->g, third[1], y), "conv_open");
    return rp_arch_linear(b, y, l->conv_out, NULL, "conv_out");
}
