/* gradients.h - the gradient rule of each op. Every row of ops.h has a row here; graph/backward.c does not compile
 * otherwise.
 *
 *     RULE(op)        graph/gradients.c: rp_gradient_<op> adds the nodes of the gradients of its sources
 *     CONSTANT(op)    the result has integers or does not change with small changes of the sources: no gradient passes
 *     NONE(op)        no rule: an error if a parameter reaches the loss through this op */
#ifndef GRAPH_GRADIENTS_H
#define GRAPH_GRADIENTS_H

#include "graph/graph.h"

/* clang-format off */
#define RP_GRADIENTS(RULE, CONSTANT, NONE)                                                                             \
    RULE(get_rows) RULE(rms_norm) RULE(mul_mat) RULE(rope) RULE(soft_max) RULE(silu) RULE(sigmoid) RULE(gelu)          \
    RULE(mul) RULE(add) RULE(scale) RULE(copy) RULE(route) RULE(mul_mat_id) RULE(add_id) RULE(combine)                 \
    RULE(swiglu_oai) RULE(attention) RULE(cross_entropy) RULE(linear_cross_entropy) RULE(aux_loss) RULE(gemm)          \
    RULE(repeat_backward) RULE(view) RULE(reshape) RULE(permute) RULE(transpose)                                       \
    CONSTANT(top_k) CONSTANT(expert_load) CONSTANT(sample) CONSTANT(sample_rows) CONSTANT(fill)                        \
    NONE(linear) NONE(gate_up) NONE(qkv) NONE(router) NONE(experts_down) NONE(quantize)                                \
    NONE(cross_entropy_backward) NONE(linear_cross_entropy_backward) NONE(aux_loss_backward) NONE(grad_norm)           \
    NONE(grad_clip) NONE(adamw) NONE(swiglu_oai_backward) NONE(silu_backward) NONE(gelu_backward)                      \
    NONE(soft_max_backward) NONE(rms_norm_backward) NONE(attention_backward) NONE(get_rows_backward)                   \
    NONE(combine_backward) NONE(route_backward) NONE(mul_mat_id_backward) NONE(mul_mat_id_transposed) NONE(bits)       \
    NONE(after)
/* clang-format on */

typedef struct Backward {
    ComputeGraph *g;
    int           n_nodes; /* of the forward graph */
    TensorNode  **grad;    /* [n_nodes], by node number; NULL: none so far */
    bool         *needs;   /* [n_nodes]: a parameter, or computed from one */
    TensorNode  **again;   /* [n_nodes]: the clone that the rules read instead (recompute.c), or NULL */
} Backward;

/* Nodes that rules see are forward nodes or clones of them. Their `tag` is the number of the forward node. */

/* Adds the nodes for y, whose gradient is dy: contiguous f32 of its shape. Returns NULL, or why it cannot. */
typedef const char *GradientRule(Backward *b, const TensorNode *y, TensorNode *dy);

#define RULE(op) GradientRule rp_gradient_##op;
#define SKIP(op)
RP_GRADIENTS(RULE, SKIP, SKIP)
#undef RULE
#undef SKIP

/* True if the gradient of `source` is wanted. NULL: false. */
bool rp_backward_needs(const Backward *b, const TensorNode *source);

/* Adds `part`, f32 with the elements of `source` in its shape, to the gradient of `source`. Parts are added in the
 * order of the calls. Does nothing if the gradient is not wanted. */
void rp_backward_give(Backward *b, TensorNode *source, TensorNode *part);

/* If `last` is the last node of a layer: clones the nodes of the layer into b->again. */
RP_NODISCARD RpStatus rp_backward_recompute(Backward *b, int last);

/* x as contiguous f32: x itself, or a copy. */
TensorNode *rp_backward_contiguous(ComputeGraph *g, TensorNode *x);

#endif
