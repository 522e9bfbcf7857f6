/* pass.h - a pass rewrites a finished graph in place. It may leave dead nodes: rp_graph_optimize drops
 * them and verifies the graph after each pass. */
#ifndef GRAPH_PASS_H
#define GRAPH_PASS_H

#include "graph/graph.h"

typedef RpStatus GraphPass(ComputeGraph *g);

GraphPass rp_pass_quantize, rp_pass_qkv;

#endif
