/* backward.h - the parts of rp_graph_backward. ops/backward.h has its state, and what the gradient rules call.
 *
 * The `tag` of a node that a rule sees is the number of the forward node: its own, or that of the node it is a clone
 * of. */
#ifndef GRAPH_BACKWARD_H
#define GRAPH_BACKWARD_H

#include "graph/graph.h"

#include "ops/backward.h"

/* If `last` is the last node of a layer: clones the nodes of the layer into b->again. */
RP_NODISCARD RpStatus rp_backward_recompute(Backward *b, int last);

#endif
