/* dump.h - helpers of the dumps of a graph as text, JSON and DOT. */
#ifndef GRAPH_DUMP_H
#define GRAPH_DUMP_H

#include "graph/graph.h"

/* Bytes of all elements of a node, without the gaps that its strides may leave. */
static inline size_t rp_node_bytes(const TensorNode *n) {
    return rp_row_bytes(n->view.dtype, n->view.ne[0]) * (size_t)rp_view_rows(&n->view);
}

/* Writes the parameters of the node's op as one JSON object. */
void rp_node_dump_params(const TensorNode *n, FILE *out);
void rp_dump_params(const OpInfo *info, const RpOpParams *params, FILE *out);

/* The colour of the node's op in pictures: "#a6cee3". Ops of one kind have the same. */
const char *rp_node_colour(const TensorNode *n);

RP_NODISCARD RpStatus rp_graph_dump_dot(const ComputeGraph *g, const RpDumpOptions *options, FILE *out);

/* The operations in a fused op, in execution order: "norm, round, products, rotation, store". "round"
 * means quantised to q8_act. "" for an op that is not fused. Returns buf. */
const char *rp_node_fused_ops(const TensorNode *n, char *buf, size_t size);

#endif
