#include "graph/graph.h"

#include <string.h>

static RpStatus fail_node(const TensorNode *n, RpStatus status, const char *what) {
    char shape[96];
    return rp_fail(status, "%s '%s' %s (node %d): %s", rp_node_op_name(n), n->name,
                   rp_format_shape(&n->view, shape, sizeof shape), n->id, what);
}

static RpStatus verify_op(const TensorNode *n) {
    const TensorView    *views[RP_MAX_SRC] = {0};
    const OpDescription *info              = rp_op_info(n->op);
    TensorView           view              = {0};
    const char          *why               = "";
    for (int s = 0; s < RP_MAX_SRC; s++) {
        if (n->src[s] == NULL) {
            if (s < info->min_src) return fail_node(n, RP_E_ARG, "a source is missing");
            continue;
        }
        if (s >= info->max_src) return fail_node(n, RP_E_ARG, "it has too many sources");
        if (n->src[s]->graph != n->graph || n->src[s]->id >= n->id || n->src[s]->id < 0 ||
            n->graph->nodes[n->src[s]->id] != n->src[s])
            return fail_node(n, RP_E_STATE, "a source does not stand before it"); /* I1 */
        views[s] = &n->src[s]->view;
    }
    if (node_is_view(n) && n->base != n->src[0]->base)
        return fail_node(n, RP_E_STATE, "it shows the memory of a node that is not its source's");
    const RpStatus st = info->shape(views, &n->params, &view, &why);
    if (st != RP_OK) return fail_node(n, st, why);
    if (view.dtype != n->view.dtype || memcmp(view.ne, n->view.ne, sizeof view.ne) != 0 ||
        memcmp(view.nb, n->view.nb, sizeof view.nb) != 0)
        return fail_node(n, RP_E_SHAPE, "its shape is not what its sources give"); /* I2 */
    return RP_OK;
}

/* The node that a view or a store shows the memory of; itself where it is its own. */
static const TensorNode *before(const TensorNode *v) {
    if (node_is_store(v) || (v->kind == NODE_OP && v->op == RP_OP_AFTER)) return v->src[1];
    return v != v->base ? v->src[0] : v;
}

/* Whether v shows its memory as the latest store into it left it. */
static bool sees_latest(const TensorNode *v) {
    const TensorNode *base = v->base;
    while (v->id != base->tag && v != before(v)) v = before(v);
    return v->id == base->tag;
}

static RpStatus verify_write(const TensorNode *n, int to) {
    const TensorNode *base = n->src[to]->base;
    if (base->kind == NODE_WEIGHT || base->kind == NODE_INPUT)
        return fail_node(n, RP_E_ARG, "a store must go into a state or a node");
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (s != to && n->src[s] != NULL && n->src[s]->base == base)
            return fail_node(n, RP_E_ARG, "it stores a tensor into itself");
    return RP_OK;
}

/* A store must follow every reader of what it overwrites, and every later reader must see the memory through
 * the latest store: then the order of nodes is the order of versions, and there is one writer at a time. */
static RpStatus verify_stores(const ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) g->nodes[i]->tag = -1; /* of a base: the latest store into it */
    for (int i = 0; i < g->n_nodes; i++) {
        TensorNode *n = g->nodes[i];
        if (n->kind != NODE_OP) continue;
        for (int s = 0; s < RP_MAX_SRC; s++) {
            const bool after = n->op == RP_OP_AFTER && s == 0; /* says itself which version it shows */
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
    if (g->status != RP_OK) return rp_fail(g->status, "%s", g->error);
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->id != i) return fail_node(g->nodes[i], RP_E_STATE, "its number is not its place");
        if (g->nodes[i]->kind == NODE_OP) RP_TRY(verify_op(g->nodes[i]));
    }
    return verify_stores(g);
}
