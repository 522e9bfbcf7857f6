/* Records and reads where nodes come from (reprise/graph.h, "where a node comes from"). */
#include "graph/origin.h"

void rp_origin_note_pass(TensorNode *node) {
    node->passes[node->graph->pass / PASS_BITS] |= (uint64_t)1 << node->graph->pass % PASS_BITS;
}

/* Inserts a built node by its number, unless it is there. */
static RpStatus add(TensorNode *to, const TensorNode *built) {
    NodeOrigin **at = &to->origins;
    while (*at != NULL && (*at)->node->built < built->built) at = &(*at)->next;
    if (*at != NULL && (*at)->node == built) return RP_OK;
    NodeOrigin *o = rp_graph_alloc(to->graph, sizeof *o);
    if (o == NULL) return rp_fail(RP_E_NOMEM, "%s", to->graph->error);
    *o  = (NodeOrigin){.node = built, .next = *at};
    *at = o;
    return RP_OK;
}

RpStatus rp_origin_merge(TensorNode *to, const TensorNode *from) {
    for (int i = 0; i < 2; i++) to->passes[i] |= from->passes[i];
    rp_origin_note_pass(to);
    if (to->origins == NULL && to->built >= 0) RP_TRY(add(to, to));
    if (from->origins == NULL && from->built >= 0) RP_TRY(add(to, from));
    for (const NodeOrigin *o = from->origins; o != NULL && from != to; o = o->next) RP_TRY(add(to, o->node));
    return RP_OK;
}

int rp_node_built(const TensorNode *node) { return node != NULL ? node->built : -1; }

const char *rp_node_built_op(const TensorNode *node) {
    if (node == NULL || node->kind != NODE_OP) return rp_node_op_name(node);
    return rp_op_info(node->built_op)->name;
}

int rp_node_n_origins(const TensorNode *node) {
    if (node == NULL) return 0;
    if (node->origins == NULL) return node->built >= 0 ? 1 : 0;
    int n = 0;
    for (const NodeOrigin *o = node->origins; o != NULL; o = o->next) n++;
    return n;
}

const TensorNode *rp_node_origin(const TensorNode *node, int i) {
    if (node == NULL || i < 0) return NULL;
    if (node->origins == NULL) return node->built >= 0 && i == 0 ? node : NULL;
    const NodeOrigin *o = node->origins;
    for (; o != NULL && i > 0; i--) o = o->next;
    return o != NULL ? o->node : NULL;
}
