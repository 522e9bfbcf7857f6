/* The end of building: checks outputs and names of leaves, drops dead nodes, verifies. From then on the
 * graph takes no more nodes from users; passes still rewrite it. A node is live if an output or a store
 * into a state depends on it. */
#include "graph/graph.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

/* Live without a reader: an output, or a node that writes to a state. */
static bool is_root(const TensorNode *n) {
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (node_writes(n, s) && n->src[s]->base->kind == NODE_STATE) return true;
    return n->is_output;
}

void rp_graph_drop_dead(ComputeGraph *g) {
    /* One backward sweep is enough: sources stand before their readers (I1). */
    for (int i = 0; i < g->n_nodes; i++) g->nodes[i]->mark = is_root(g->nodes[i]);
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (g->nodes[i]->mark)
            for (int s = 0; s < RP_MAX_SRC; s++)
                if (g->nodes[i]->src[s] != NULL) g->nodes[i]->src[s]->mark = true;
    int kept = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->mark) {
            g->nodes[kept]     = g->nodes[i];
            g->nodes[kept]->id = kept;
            kept++;
        } else {
            g->nodes[i]->id = -1;
        }
    g->n_nodes = kept;
}

void rp_graph_count_uses(ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) g->nodes[i]->tag = g->nodes[i]->is_output ? 1 : 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int s = 0; s < RP_MAX_SRC; s++)
            if (g->nodes[i]->src[s] != NULL) g->nodes[i]->src[s]->tag++;
}

static int by_name(const void *a, const void *b) {
    const TensorNode *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Names of leaves are unique, because executors share states by name and callers look up inputs by name. */
static RpStatus check_leaf_names(const ComputeGraph *g) {
    const TensorNode **leaves = malloc(((size_t)g->n_nodes + 1) * sizeof *leaves);
    if (leaves == NULL) return rp_fail(RP_E_NOMEM, "out of memory while finishing a graph");
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->kind != NODE_OP) leaves[n++] = g->nodes[i];
    qsort(leaves, (size_t)n, sizeof *leaves, by_name);
    RpStatus st = RP_OK;
    for (int i = 1; i < n && st == RP_OK; i++)
        if (strcmp(leaves[i - 1]->name, leaves[i]->name) == 0)
            st = rp_fail(RP_E_ARG, "two leaves are named '%s'", leaves[i]->name);
    free(leaves);
    return st;
}

RpStatus rp_graph_finish(ComputeGraph *g, TensorNode *const outputs[], int n_outputs) {
    if (g == NULL) return rp_fail(RP_E_NOMEM, "out of memory while building a graph");
    if (g->status != RP_OK) return rp_fail(g->status, "%s", g->error);
    if (g->finished) return rp_fail(RP_E_STATE, "the graph is finished already");
    if (n_outputs < 1) return rp_fail(RP_E_ARG, "a graph of no outputs, must have one");
    RP_NOT_NULL(outputs, "outputs");
    for (int i = 0; i < n_outputs; i++) {
        if (outputs[i] == NULL || outputs[i]->graph != g)
            return rp_fail(RP_E_ARG, "output %d is not a node of this graph", i);
        if (outputs[i]->base->kind != NODE_OP)
            return rp_fail(RP_E_ARG, "output %d, '%s', is not computed: it is a leaf or a view of one", i,
                           outputs[i]->name);
    }
    for (int i = 0; i < n_outputs; i++) outputs[i]->is_output = true;
    RP_TRY(check_leaf_names(g));
    rp_graph_drop_dead(g);
    RP_TRY(rp_graph_verify(g));
    g->finished = true;
    return RP_OK;
}
