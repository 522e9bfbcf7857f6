/* arch.h - shared by the builders of a model's graph. Shapes are [ne0, ne1, ne2], ne0 contiguous; t is n_tok.
 * Errors stick in the graph: after one every call returns NULL, and rp_graph_finish reports it. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model/adapter.h"
#include "model/model.h"

/* A tensor of the file and the f32 state that holds it while it is trained. */
typedef struct ArchParam {
    const RpGgufTensor *tensor;
    TensorNode         *state;
} ArchParam;

/* For the loss that balances the load of the experts of a layer. NULL: a dense layer. */
typedef struct ArchRouter {
    TensorNode *probs; /* softmax of the router's logits over all experts [n_expert, t] */
    TensorNode *ids;   /* of the chosen ones, i32 [n_used, t] */
} ArchRouter;

/* A graph to be trained: its parameters are states, named as the tensors of the file. Each of n_seq sequences of
 * n_tok / n_seq tokens begins at position 0 and attends to itself; there are no caches. */
typedef struct ArchTraining {
    int32_t    n_seq;
    ArchParam *params; /* room for as many as the file has tensors */
    int        n_params;
    RpDtype    compute; /* RP_BF16: products read a copy of the weights in bf16; else RP_F32 */
    /* The pairs that are trained, while weights are those of the file. NULL: all weights are trained. */
    const AdapterPair *pairs;
    int                n_pairs;
    ArchRouter        *routers; /* [n_layer], zeroed */
    TensorNode        *mask; /* state "causal_mask" [t / n_seq, t / n_seq], which latent attention needs; else NULL */
} ArchTraining;

/* A product with a weight of a layer: w x, or with ids [n_used, t] the product with matrix ids[k, t] of w. */
typedef struct ArchProduct {
    const RpGgufTensor *w;
    TensorNode         *x, *ids; /* ids: NULL without experts */
} ArchProduct;

/* Filled in while a graph is built whose outputs are the sources of the products. */
typedef struct ArchProducts {
    ArchProduct *list; /* [room], owned by the caller: at least the number of tensors and parts of tensors */
    int          n, room;
} ArchProducts;

typedef struct Builder {
    const RpModel *m;
    ComputeGraph  *g;
    TensorNode    *last, *mask;                /* of a bidirectional model: see rp_model_graph; mask NULL: none */
    TensorNode    *slots, *starts;             /* of recurrent states; NULL: no layer has one; without n_seq */
    TensorNode    *kv_rows, *table, *seq;      /* with n_seq; else kv_rows is pos, the others are NULL */
    TensorNode    *window_rows, *window_table; /* of layers with a window, if n_window_rows > 0 */
    TensorNode    *pos, *rope_factors, *step;  /* step: the step state of a graph that samples */
    TensorNode    *reach;                      /* the last position that a token attends to: pos, but in an assistant */
    TensorNode    *attn_cap;                   /* of the scores [1]; NULL: none */
    TensorNode    *layer_embd;                 /* of all layers [n_embd_layer * n_layer, n_tok]; NULL: none */
    TensorNode   **caches;                     /* [2 * n_layer + 4] keys and values of LayerKind.kv_layer, as heads */
    TensorNode    *temperature;                /* of attention [1, 1, n_tok]; NULL: none */
    bool           hidden;                     /* the hidden states of all tokens are an output */
    bool           expert_ids;                 /* the ids of the chosen experts are outputs */
    int32_t        n_tok, n_ctx, n_states;
    int32_t        block, n_rows; /* positions of a block, 0: no blocks; positions of the cache */
    int32_t        n_window_rows; /* positions of the caches of layers with a window; 0: n_rows */
    RpDtype        kv_type;
    int            layer;   /* for names; -1: outside of the layers */
    LayerKind      kind;    /* of that layer */
    TensorNode   **outputs; /* room for the ids of each layer, hidden states and the logits */
    int            n_outputs;
    ArchTraining  *training; /* NULL: a graph that decodes */
    ArchProducts  *products; /* NULL: they are not asked for */
} Builder;

/* The last product of the graph, whose result are the logits: scale * w x. */
typedef struct ArchOutput {
    TensorNode *w, *x; /* [n_embd, n_vocab], [n_embd, n_tok] */
    float       scale;
} ArchOutput;

/* The graph of n_tok tokens up to its last product, with the inputs "tokens" and "pos", if a layer rotates;
 * b->training is filled in. */
ArchOutput rp_arch_training(Builder *b);

/* Builds the nodes that all layers read: the factors of RoPE, the temperature and the cap of attention. */
void rp_arch_begin_layers(Builder *b);

/* Layer b->layer of kind b->kind: x [n_embd, t] -> [n_embd, t]. */
TensorNode *rp_arch_layer(Builder *b, TensorNode *x);

/* x * by; x itself for a factor of 1. */
TensorNode *rp_arch_scaled(Builder *b, TensorNode *x, float by, const char *what);

/* All layers of the model, with the embeddings and factors of each: x [n_embd, t] -> [n_embd, t]. */
TensorNode *rp_arch_layers(Builder *b, TensorNode *x);

/* The graph of the layer that predicts further tokens up to its logits; `rows` names those that have some. */
TensorNode *rp_arch_mtp(Builder *b, TensorNode *tokens, TensorNode *rows);

/* The same of an assistant of `target`. RP_E_ARG, in `check`, for a target that it does not fit. */
TensorNode           *rp_arch_assistant(Builder *b, const RpModel *target, TensorNode *tokens, TensorNode *rows);
RP_NODISCARD RpStatus rp_arch_check_assistant(const RpModel *m, const RpModel *target);

/* Each column of `first` [n, t], and behind it the same column of `second` [n, t]: [2 n, t]. t is at most
 * MTP_MAX_TOKENS. */
TensorNode *rp_arch_joined(Builder *b, TensorNode *first, TensorNode *second);

enum { MTP_MAX_TOKENS = 1024 };

/* The logits [n_vocab, n_tok]. */
TensorNode *rp_arch_logits(Builder *b, const ArchOutput *of);

/* rp_model_graph, which also notes the products of its layers. `products` may be NULL. */
RP_NODISCARD RpStatus rp_arch_graph(const RpModel *m, const RpModelGraphOptions *o, ArchProducts *products,
                                    ComputeGraph **out);

/* Notes a product, if they are asked for. */
void rp_arch_note_product(Builder *b, const RpGgufTensor *w, TensorNode *x, TensorNode *ids);

TensorNode *rp_arch_weight(Builder *b, const RpGgufTensor *t);
TensorNode *rp_arch_matrix(Builder *b, const RpGgufTensor *t); /* for a product: in the type of `compute` */
/* The node w as a product reads it: a weight that is trained, as bf16, with one rounding of it in each run. */
TensorNode *rp_arch_for_product(Builder *b, TensorNode *w);

TensorNode *rp_arch_optional(Builder *b, const RpGgufTensor *t); /* NULL for NULL */
TensorNode *rp_arch_constant(Builder *b, const RpGgufTensor *t); /* the same, never trained */
TensorNode *rp_arch_state(Builder *b, const RpGgufTensor *t);    /* the same, trained */

/* Names the node "blk.<layer>.<what>"; returns it. */
TensorNode *rp_arch_name_node(Builder *b, TensorNode *n, const char *what);

/* y = x * rsqrt(mean(x^2) + eps) * w, or with ArchRow.layer_norm the same of x - mean(x); NULL: no weight. */
TensorNode *rp_arch_norm(Builder *b, TensorNode *x, const RpGgufTensor *w, const char *what);

/* A norm with its parameters. The bias is added to the result; only families with ArchRow.layer_norm may have one, and
 * NULL means none. An eps of 0 means that of the model. rp_arch_normed computes rp_arch_norm with these. */
typedef struct ArchNorm {
    const RpGgufTensor *w, *bias;
    float               eps;
} ArchNorm;
TensorNode *rp_arch_normed(Builder *b, TensorNode *x, ArchNorm norm, const char *what);

/* A number of the configuration as a weight [1]; and y = cap * tanh(scale * x / cap). */
TensorNode *rp_arch_cap(Builder *b, const float *cap, const char *name);
TensorNode *rp_arch_soft_cap(Builder *b, TensorNode *x, float scale, TensorNode *cap, const char *what);

/* y = w x + bias, [w.ne1, t], with what adapters add; NULL: no bias. */
TensorNode *rp_arch_linear(Builder *b, TensorNode *x, const RpGgufTensor *w, const RpGgufTensor *bias,
                           const char *what);

/* y = w x, with the scale * b (a x) of each pair for w added (arch_adapter.c). */
TensorNode *rp_arch_adapted(Builder *b, TensorNode *y, TensorNode *x, const RpGgufTensor *w, const char *what);

/* Whether the caches of a layer of this kind have blocks of their own. */
static inline bool rp_arch_has_window_rows(const Builder *b, const LayerKind *k) {
    return b->n_window_rows > 0 && k->window > 0;
}

/* Positions of the caches of a layer of this kind. */
static inline int32_t rp_arch_cache_rows(const Builder *b, const LayerKind *k) {
    return rp_arch_has_window_rows(b, k) ? b->n_window_rows : b->n_rows;
}

/* cache[:, pos[t], h] = x[:, t, h] in the state "<which>.<layer>" [d, n_ctx, heads] of kv_type; x is [d, t, heads].
 * Returns the cache after the store, so that readers come later in the graph. */
TensorNode *rp_arch_cached(Builder *b, TensorNode *x, int64_t d, int64_t heads, const char *which);

/* x rotated as the layer's kind of position says: [n, heads, t]; x itself without RoPE. */
TensorNode *rp_arch_rotated(Builder *b, TensorNode *x, const char *what);

/* Elements from .. from+ne0 of each row of row_len f32 of x, as [ne0, ne1, ne2]:
 *     element (i, j, k) is element from + i of row j + ne1*k */
TensorNode *rp_arch_slice(Builder *b, TensorNode *x, int64_t row_len, int64_t from, int64_t ne0, int64_t ne1,
                          int64_t ne2);

/* Part of each column of x [row, t], from element `from` on, as [n0, n1, t]; `step` elements from one n0 to the next.
 */
typedef struct ColumnPart {
    int64_t row, from, n0, n1, step;
} ColumnPart;

TensorNode *rp_arch_part(Builder *b, TensorNode *x, ColumnPart p);

/* The recurrent state "<which>.<layer>", f32 [n, n_states]. */
TensorNode *rp_arch_recurrent(Builder *b, const char *which, int64_t n);

/* The embeddings of all layers from the tokens and their embedding x; and the layer's, added to its result
 * (arch_embd.c). */
TensorNode *rp_arch_layer_embd(Builder *b, TensorNode *tokens, TensorNode *x);
TensorNode *rp_arch_add_embd(Builder *b, TensorNode *x, const LayerWeights *l);

/* The embeddings x of an encoder with those of types and positions, normed; x itself in other families
 * (embed/arch_encoder.c). */
TensorNode *rp_arch_encoder_embd(Builder *b, TensorNode *x);

/* norm(x + f) with the norm's weight and bias. */
TensorNode *rp_arch_norm_of_sum(Builder *b, TensorNode *x, TensorNode *f, const RpGgufTensor *w,
                                const RpGgufTensor *bias, const char *what);

/* The inputs "last" and "mask" of a bidirectional model. */
void rp_arch_encoder_inputs(Builder *b);

/* Attention to all tokens of a text: q [head_dim, n_head, t], k and v -> [head_dim, n_head, t]. */
TensorNode *rp_arch_attend_all(Builder *b, TensorNode *q, TensorNode *k, TensorNode *v, const LayerWeights *l);

/* The blocks of a layer: from the normed x [n_embd, t] to the [n_embd, t] that the residual adds. */
TensorNode *rp_arch_attention(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_delta(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_short_conv(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_ssm(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_attention_mla(Builder *b, TensorNode *x, const LayerWeights *l);
TensorNode *rp_arch_feed_forward(Builder *b, TensorNode *x, const LayerWeights *l);

/* The experts without the shared ones. The router reads `routed`, which is x unless experts run beside a dense
 * feed-forward. */
TensorNode *rp_arch_experts(Builder *b, TensorNode *x, TensorNode *routed, const LayerWeights *l);

/* Both, from x before any norm. */
TensorNode *rp_arch_dense_and_experts(Builder *b, TensorNode *x, const LayerWeights *l);

/* The experts that every token goes through, in qwen2moe times sigmoid(shared_gate x). NULL: there are none. */
TensorNode *rp_arch_shared_experts(Builder *b, TensorNode *x, const LayerWeights *l);

/* y = down(act(gate x) * (up x)), or without a gate down(act(up x)) */
TensorNode *rp_arch_gated(Builder *b, TensorNode *x, const RpGgufTensor *gate, const RpGgufTensor *up,
                          const RpGgufTensor *down, const char *prefix);

#endif
