/* backward.h - helpers of the gradient rules. A rule adds nodes to the graph by the builder calls of reprise/graph.h,
 * and gives the gradients of the sources:
 *
 *     static GRADIENT_RULE(gradient) {
 *         rp_backward_give(b, y->from.scale.x, rp_scale(b->g, dy, y->params.scale.scale, 0.0f));
 *         return NULL;
 *     }
 *
 * The formulas stand beside the rows. An op with several gradients writes the further ones into buffers of the graph,
 * and their readers see them through rp_backward_after. A NULL node is the result of an earlier failure, and gives
 * NULL. */
#ifndef OPS_BACKWARD_H
#define OPS_BACKWARD_H

#include "ops/node.h"

/* The state of rp_graph_backward (graph/backward.c). Nodes that rules see are forward nodes or clones of them. */
typedef struct Backward {
    ComputeGraph *g;
    int           n_nodes; /* of the forward graph */
    TensorNode  **grad;    /* [n_nodes], by node number; NULL: none so far */
    bool         *needs;   /* [n_nodes]: a parameter, or computed from one */
    TensorNode  **again;   /* [n_nodes]: the clone that the rules read instead (graph/recompute.c), or NULL */
} Backward;

#define GRADIENT_RULE(name) const char *name(Backward *b, const OpNode *y, TensorNode *dy)
typedef GRADIENT_RULE(GradientRule);

/* For OpRules.gradient. Constant: the result has integers or does not change with small changes of the sources, so no
 * gradient passes. None: it is an error if a parameter reaches the loss through this op. */
GradientRule rp_gradient_constant, rp_gradient_none;

/* Dimension i of a node. */
static inline int64_t rp_node_ne(const TensorNode *x, int i) { return rp_node_view(x).ne[i]; }

/* True if the gradient of `source` is wanted. NULL: false. */
bool rp_backward_needs(const Backward *b, const TensorNode *source);

/* Adds `part`, f32 with the elements of `source` in its shape, to the gradient of `source`. Parts are added in the
 * order of the calls. Does nothing if the gradient is not wanted. */
void rp_backward_give(Backward *b, TensorNode *source, TensorNode *part);

/* `buffer` after `writer` has written to it. */
TensorNode *rp_backward_after(Backward *b, TensorNode *buffer, TensorNode *writer);

/* x as contiguous f32: x itself, or a copy. */
TensorNode *rp_backward_contiguous(Backward *b, TensorNode *x);

/* A weight as contiguous f32. Quantised rows are dequantised. */
TensorNode *rp_backward_as_f32(Backward *b, TensorNode *w);

/* rp_graph_op with up to three sources; those at the end may be NULL. */
TensorNode *rp_backward_op(Backward *b, TensorOp op, const RpOpParams *p, TensorNode *s0, TensorNode *s1,
                           TensorNode *s2);

/* x [n0,n1,n2,n3], and x in the shape of `of`. */
TensorNode *rp_backward_shaped(Backward *b, TensorNode *x, int64_t n0, int64_t n1, int64_t n2, int64_t n3);
TensorNode *rp_backward_like(Backward *b, TensorNode *x, const TensorNode *of);

/* Sums a gradient over what was repeated: to the shape ne, or to that of `of`. */
TensorNode *rp_backward_sum_to(Backward *b, TensorNode *dy, const int64_t ne[RP_MAX_DIMS]);
TensorNode *rp_backward_sum_like(Backward *b, TensorNode *dy, const TensorNode *of);

/* `value` in the shape of x, which is not read: a NaN in x does not pass. */
TensorNode *rp_backward_filled(Backward *b, const TensorNode *x, float value);

/* A buffer like x, which another op writes to. It begins as zeros: reading x would cost more. */
TensorNode *rp_backward_buffer_like(Backward *b, const TensorNode *x);

/* A buffer of n floats for each row of x. */
TensorNode *rp_backward_buffer_of_rows(Backward *b, const TensorNode *x, int64_t n);

#endif
