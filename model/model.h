/* model.h - the inside of a Model. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "reprise/model.h"

#include "model/config.h"

/* Tensors of one layer; NULL where the file has none and the architecture does not ask for it. */
typedef struct LayerWeights {
    const GgufTensor *attn_norm, *q, *k, *v, *o, *q_bias, *k_bias, *v_bias, *o_bias, *q_norm, *k_norm;
    const GgufTensor *post_attn_norm, *ffn_norm, *gate, *up, *down, *post_ffn_norm;
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

/* Finds every tensor and checks its shape and type. */
RP_NODISCARD RpStatus rp_model_find_weights(Model *m);

#endif
