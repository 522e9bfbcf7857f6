/* dump.h - what the dumps share. */
#ifndef GRAPH_DUMP_H
#define GRAPH_DUMP_H

#include "graph/graph.h"

/* Bytes of the elements that a node shows, whatever its strides. */
size_t rp_node_bytes(const TensorNode *n);

/* The parameters of its op as one JSON object. */
void rp_node_dump_params(const TensorNode *n, FILE *out);

RP_NODISCARD RpStatus rp_graph_dump_dot(const ComputeGraph *g, const DumpOptions *options, FILE *out);

/* "norm, round, products, rotation, store": what a fused op does beside its name; "" of others. Returns buf. */
const char *rp_node_fused_ops(const TensorNode *n, char *buf, size_t size);

#endif
