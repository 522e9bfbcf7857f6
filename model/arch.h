/* arch.h - what the builders of a model's graph share. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model/model.h"

typedef struct Builder {
    const Model  *m;
    ComputeGraph *g;
    TensorNode   *pos, *rope_factors, *step; /* step: of a graph that draws */
    bool          expert_ids;
    int32_t       n_tok, n_ctx;
    RpDtype       kv_type;
    int           layer;   /* -1: none */
    TensorNode  **outputs; /* room for one a layer and one more */
    int           n_outputs;
} Builder;

TensorNode *rp_arch_weight(Builder *b, const GgufTensor *t);
TensorNode *rp_arch_optional(Builder *b, const GgufTensor *t); /* NULL for NULL */

/* Names the node "blk.<layer>.<what>"; returns it. */
TensorNode *rp_arch_name_node(Builder *b, TensorNode *n, const char *what);

TensorNode *rp_arch_norm(Builder *b, TensorNode *x, const GgufTensor *w, const char *what);

/* w x + bias; no bias for NULL. */
TensorNode *rp_arch_linear(Builder *b, TensorNode *x, const GgufTensor *w, const GgufTensor *bias,
                           const char *what);

/* Stores x [row, t] into a cache of the layer's own, [row, n_ctx] of kv_type; returns the cache after the
 * store. */
TensorNode *rp_arch_cached(Builder *b, TensorNode *x, int64_t row, const char *which);

/* From the normed x [n_embd, t] to what is added to it: [n_embd, t]. */
TensorNode *rp_arch_attention(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_attention_mla(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_feed_forward(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_experts(Builder *b, TensorNode *x, const LayerWeights *l);

/* act(gate x) * (up x), through down. */
TensorNode *rp_arch_gated(Builder *b, TensorNode *x, const GgufTensor *gate, const GgufTensor *up,
                          const GgufTensor *down, const char *prefix);

#endif
