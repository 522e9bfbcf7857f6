/* pass.h - a pass rewrites a finished graph in place; rp_graph_optimize verifies after each and drops dead
 * nodes. */
#ifndef GRAPH_PASS_H
#define GRAPH_PASS_H

#include "graph/graph.h"

typedef RpStatus GraphPass(ComputeGraph *g);

GraphPass rp_pass_quantize;

#endif
