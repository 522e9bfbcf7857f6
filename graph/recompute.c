/* Activations that are computed again (backward.h). The forward nodes of a layer are cloned in front of its backward
 * nodes, which read the clones:
 *
 *     forward    x -> [layer 0: a, b] -> y -> [layer 1: c, d] -> loss
 *     backward   [c', d' from y] -> gradients of layer 1 -> [a', b' from x] -> gradients of layer 0
 *
 * So the memory of a and b is free from y on; x and y, what a layer reads of others, stays. Clones that nothing reads
 * are dropped by rp_graph_finish. A clone has the bits of its node: ops are deterministic (I8). */
#include "graph/backward.h"

#include <stdio.h>
#include <string.h>

static bool writes(const TensorNode *n) {
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (node_writes(n, s)) return true;
    return false;
}

/* The first node of the run of its layer's nodes that ends at `last`; -1 if it is not to be computed again. The nodes
 * of a layer are the first run of its number: those added later, such as an auxiliary loss, are few and small. */
static int first_of_layer(const ComputeGraph *g, int last) {
    const int layer = g->nodes[last]->layer;
    int       first = last;
    while (first > 0 && g->nodes[first - 1]->layer == layer) first--;
    for (int i = 0; i < first; i++)
        if (g->nodes[i]->layer == layer) return -1;
    for (int i = first; i <= last; i++)
        if (writes(g->nodes[i])) return -1; /* to write again could change what others read */
    return first;
}

static TensorNode *clone(Backward *b, const TensorNode *n) {
    TensorNode *src[RP_MAX_SRC];
    char        name[128] = "";
    for (int s = 0; s < RP_MAX_SRC; s++)
        src[s] = n->src[s] != NULL && b->again[n->src[s]->id] != NULL ? b->again[n->src[s]->id] : n->src[s];
    if (n->name[0] != '\0') snprintf(name, sizeof name, "%s_again", n->name);
    TensorNode *c = rp_graph_make_op(b->g, n->op, &n->params, src, rp_op_info(n->op)->n_sources, name, n->layer);
    if (c == NULL || rp_graph_push(b->g, c) != RP_OK) return NULL;
    c->tag = n->id;
    return c;
}

RpStatus rp_backward_recompute(Backward *b, int last) {
    const ComputeGraph *g     = b->g;
    const int           layer = g->nodes[last]->layer;
    if (layer < 0 || (last + 1 < b->n_nodes && g->nodes[last + 1]->layer == layer)) return RP_OK;
    const int first = first_of_layer(g, last);
    for (int i = first; first >= 0 && i <= last; i++) {
        if (g->nodes[i]->kind != NODE_OP) continue;
        b->again[i] = clone(b, g->nodes[i]);
        if (b->again[i] == NULL) return rp_fail(g->status, "%s", g->error);
    }
    return RP_OK;
}
