/* Checks a graph after building and after each pass:
 *
 *   - sources stand before their readers (I1) and shapes are those that the op infers from its sources (I2)
 *   - every memory has one version at a time: a store makes a new version, and later readers must use it */
#include "graph/graph.h"

#include "base/argument.h"

#include <string.h>

static RpStatus fail_node(const TensorNode *n, RpStatus status, const char *what) {
    char shape[96];
    return rp_fail(status, "%s '%s' %s (node %d): %s", rp_node_op_name(n), n->name,
                   rp_format_shape(&n->view, shape, sizeof shape), n->id, what);
}

static RpStatus fail_source(const TensorNode *n, RpStatus status, int s, const char *what) {
    char text[64];
    snprintf(text, sizeof text, "source %s %s", rp_node_source_name(n, s), what);
    return fail_node(n, status, text);
}

static RpStatus verify_op(const TensorNode *n) {
    RpSourceShapes views = {0};
    const OpInfo  *info  = rp_op_info(n->op);
    RpTensorView   view  = {0};
    const char    *why   = "";
    for (int s = 0; s < RP_MAX_SRC; s++) {
        if (n->src[s] == NULL) {
            if (s < info->n_required) return fail_source(n, RP_E_ARG, s, "is missing");
            continue;
        }
        if (s >= info->n_sources) return fail_node(n, RP_E_ARG, "it has too many sources");
        if (n->src[s]->graph != n->graph || n->src[s]->id >= n->id || n->src[s]->id < 0 ||
            n->graph->nodes[n->src[s]->id] != n->src[s])
            return fail_source(n, RP_E_STATE, s, "does not stand before it"); /* I1 */
        views.src[s] = &n->src[s]->view;
    }
    if (node_is_view(n) && n->base != n->from.unary.x->base)
        return fail_node(n, RP_E_STATE, "its memory is not that of its source");
    const RpStatus st = rp_graph_shape_rule(n->op)(&views, &n->params, &view, &why);
    if (st != RP_OK) return fail_node(n, st, why);
    if (view.dtype != n->view.dtype || memcmp(view.ne, n->view.ne, sizeof view.ne) != 0 ||
        memcmp(view.nb, n->view.nb, sizeof view.nb) != 0)
        return fail_node(n, RP_E_SHAPE, "its shape is not the one inferred from its sources"); /* I2 */
    return RP_OK;
}

/* The result of a store is the destination after the store, so versions form a chain of nodes:
 *
 *     k                       state                          version 0
 *     s1 = copy(x, k, pos)    store into k                   version 1
 *     v  = view(s1)           chain v -> s1                  reads version 1
 *     s2 = copy(y, s1, pos)   store into k, through s1       version 2
 *     r  = add(v, x)          refused: the chain of v ends before s2, but the memory holds version 2 */

/* One link back in the chain of versions. A store leads to the version that it overwrites, an AFTER to the
 * fused op that did the store, a view to its source. Any other node is the first version of its memory and
 * leads to itself. */
static const TensorNode *previous(const TensorNode *v) {
    if (node_is_store(v)) return v->from.store.target;
    if (v->kind == NODE_OP && v->op == RP_OP_AFTER) return v->from.after.writer;
    return v != v->base ? v->from.unary.x : v;
}

/* True if the chain of v contains the latest store into its memory, whose id is base->tag. */
static bool sees_latest(const TensorNode *v) {
    const TensorNode *base = v->base;
    while (v->id != base->tag && v != previous(v)) v = previous(v);
    return v->id == base->tag;
}

/* A source that overlaps the destination of the same node would be read while it is written. */
static RpStatus verify_write(const TensorNode *n, int to) {
    const TensorNode *base = n->src[to]->base;
    if (base->kind == NODE_WEIGHT || base->kind == NODE_INPUT)
        return fail_node(n, RP_E_ARG, "a store must go into a state or a node");
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (s != to && n->src[s] != NULL && n->src[s]->base == base)
            return fail_node(n, RP_E_ARG, "it stores a tensor into itself");
    return RP_OK;
}

/* Walks the nodes in order and keeps in `tag` of each base the id of the latest store into it. Every
 * reader must see that version. So a reader of an older version stands before the store, and the order of
 * nodes orders all accesses. */
static RpStatus verify_stores(const ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) g->nodes[i]->tag = -1; /* no store yet */
    for (int i = 0; i < g->n_nodes; i++) {
        TensorNode *n = g->nodes[i];
        if (n->kind != NODE_OP) continue;
        for (int s = 0; s < RP_MAX_SRC; s++) {
            const bool after =
                n->op == RP_OP_AFTER && n->src[s] == n->from.after.x; /* `writer` is the version it shows */
            if (n->src[s] != NULL && !after && n->src[s]->base->tag >= 0 && !sees_latest(n->src[s]))
                return fail_node(n, RP_E_STATE, "it reads memory that a later store overwrote");
            if (node_writes(n, s)) RP_TRY(verify_write(n, s));
        }
        for (int s = 0; s < RP_MAX_SRC; s++)
            if (node_writes(n, s)) n->src[s]->base->tag = n->id;
    }
    return RP_OK;
}

RpStatus rp_graph_verify(const ComputeGraph *g) {
    RP_NOT_NULL(g, "g");

    if (g->status != RP_OK) return rp_fail(g->status, "%s", g->error);
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->id != i) return fail_node(g->nodes[i], RP_E_STATE, "its id is not its index in the graph");
        if (g->nodes[i]->kind == NODE_OP) RP_TRY(verify_op(g->nodes[i]));
    }
    return verify_stores(g);
}
