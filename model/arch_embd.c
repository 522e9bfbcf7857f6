/* Embeddings that each layer adds (Gemma 3n and 4), n_e elements a layer:
 *
 *     all[:, layer, t] = (norm(proj x / sqrt(n_embd)) + sqrt(n_e) * layer_embd[token]) / sqrt(2)    [n_e, n_layer, t]
 *     x += norm(embd_proj (gelu(embd_gate x) * all[:, layer, t])),  then x *= out_scale */
#include "model/arch.h"

#include <math.h>

TensorNode *rp_arch_layer_embd(Builder *b, TensorNode *tokens, TensorNode *x) {
    const RpModel     *m = b->m;
    const ModelConfig *c = &m->config;
    const int64_t      n = c->n_embd_layer, all = n * c->n_layer;
    TensorNode        *e = rp_get_rows(b->g, rp_arch_weight(b, m->layer_embd), tokens);
    e                    = rp_arch_name_node(b, rp_scale(b->g, e, sqrtf((float)n), 0.0f), "layer_embedding");
    TensorNode *y        = rp_arch_linear(b, x, m->layer_proj, NULL, "layer_proj");
    y                    = rp_scale(b->g, y, 1.0f / sqrtf((float)c->n_embd), 0.0f);
    y = rp_arch_norm(b, rp_reshape(b->g, y, n, c->n_layer, b->n_tok, 1), m->layer_norm, "layer_proj_norm");
    y = rp_add(b->g, rp_reshape(b->g, y, all, b->n_tok, 1, 1), e);
    return rp_arch_name_node(b, rp_scale(b->g, y, sqrtf(0.5f), 0.0f), "layer_embeddings");
}

TensorNode *rp_arch_add_embd(Builder *b, TensorNode *x, const LayerWeights *l) {
    const int64_t n = b->m->config.n_embd_layer, all = n * b->m->config.n_layer;
    if (l->embd_gate != NULL) {
        TensorNode *y = rp_gelu(b->g, rp_arch_linear(b, x, l->embd_gate, NULL, "embd_gate"), RP_GELU_TANH);
        y             = rp_mul(b->g, y, rp_arch_slice(b, b->layer_embd, all, n * b->layer, n, b->n_tok, 1));
        y             = rp_arch_linear(b, rp_arch_name_node(b, y, "embd_gated"), l->embd_proj, NULL, "embd_proj");
        y             = rp_arch_norm(b, y, l->embd_norm, "embd_norm");
        x             = rp_arch_name_node(b, rp_add(b->g, y, x), "embd_residual");
    }
    if (l->out_scale == NULL) return x;
    return rp_arch_name_node(b, rp_mul(b->g, x, rp_arch_weight(b, l->out_scale)), "out_scaled");
}
