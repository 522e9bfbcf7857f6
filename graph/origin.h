/* origin.h - where the nodes of a rewritten graph come from: each node lists the built nodes whose work it does, and
 * the passes that made or changed it. Recorded while passes run; a run of the graph does not read it.
 *
 *     built                     after pass "linear"        after pass "residual"
 *     3  a = mul_mat(w, x)
 *     4  b = add(a, bias)       b = linear    {3, 4}
 *     5  c = add(b, r)          c = add                    c = linear    {3, 4, 5}    passes: linear, residual */
#ifndef GRAPH_ORIGIN_H
#define GRAPH_ORIGIN_H

#include "graph/graph.h"

enum { PASS_BITS = 64 }; /* of a word of TensorNode.passes */

struct NodeOrigin {
    const TensorNode *node; /* built; a pass may have taken it out of the graph */
    NodeOrigin       *next;
};

/* `to` does the work of `from` too, in the running pass. */
RP_NODISCARD RpStatus rp_origin_merge(TensorNode *to, const TensorNode *from);

/* The running pass made or changed the node. */
void rp_origin_note_pass(TensorNode *node);

#endif
