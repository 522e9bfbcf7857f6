/* model.h - the inside of a Model. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "reprise/model.h"

#include "model/config.h"

/* Tensors of one layer; NULL where the file has none and the architecture does not ask for it. */
typedef struct LayerWeights {
    const GgufTensor *attn_norm, *q, *k, *v, *o, *q_bias, *k_bias, *v_bias, *o_bias, *q_norm, *k_norm, *sinks;
    const GgufTensor *q_a, *q_a_norm, *kv_a, *kv_a_norm, *k_b, *v_b; /* latent attention */
    const GgufTensor *post_attn_norm, *ffn_norm, *gate, *up, *down, *post_ffn_norm;
    const GgufTensor *router, *router_bias, *choice_bias, *gate_exps, *up_exps, *down_exps;
    const GgufTensor *gate_exps_bias, *up_exps_bias, *down_exps_bias;
    const GgufTensor *shared_gate, *gate_shared, *up_shared, *down_shared;
} LayerWeights;

struct Model {
    GgufFile         *file;
    Tokenizer        *tokenizer; /* or NULL */
    ModelConfig       config;
    ModelInfo         info;
    char              name[128];
    const GgufTensor *token_embd, *output_norm, *output, *rope_factors; /* output is token_embd where tied */
    LayerWeights     *layers;
};

/* Calls back with every tensor that a model of this shape has, in the order of a file; of the optional ones
 * the biases that the architecture has where `biases`. */
typedef RpStatus      WeightVisitor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user);
RP_NODISCARD RpStatus rp_model_list_weights(const ModelConfig *c, int64_t n_vocab, bool tied, bool biases,
                                            WeightVisitor *visit, void *user);

/* Finds every tensor and checks its shape and type. */
RP_NODISCARD RpStatus rp_model_find_weights(Model *m);

#endif
