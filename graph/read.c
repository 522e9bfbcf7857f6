/* Read access to a graph and its nodes, part of the public API (reprise/graph.h). */
#include "graph/graph.h"

#include <string.h>

int rp_graph_n_nodes(const ComputeGraph *g) { return g != NULL ? g->n_nodes : 0; }

int rp_graph_n_steps(const ComputeGraph *g) {
    if (g == NULL) return 0;
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += node_is_kernel(g->nodes[i]);
    return n;
}

const TensorNode *rp_graph_node(const ComputeGraph *g, int i) {
    if (g == NULL) return NULL;
    return i >= 0 && i < g->n_nodes ? g->nodes[i] : NULL;
}

const TensorNode *rp_graph_find(const ComputeGraph *g, const char *name) {
    const TensorNode *first = NULL;
    if (g == NULL || name == NULL) return NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i]->name, name) != 0) continue;
        if (g->nodes[i]->is_output) return g->nodes[i];
        if (first == NULL) first = g->nodes[i];
    }
    return first;
}

const char *rp_node_name(const TensorNode *node) { return node != NULL ? node->name : ""; }

const char *rp_node_source_name(const TensorNode *n, int i) {
    if (n == NULL) return "";
    return rp_op_source_name(n->kind == NODE_OP ? rp_op_info(n->op) : NULL, i);
}

const char *rp_node_op_name(const TensorNode *node) {
    if (node == NULL) return "";
    static const char *const kinds[] = {[NODE_WEIGHT] = "weight", [NODE_INPUT] = "input", [NODE_STATE] = "state"};
    return node->kind == NODE_OP ? rp_op_info(node->op)->name : kinds[node->kind];
}

RpTensorView rp_node_view(const TensorNode *node) { return node != NULL ? node->view : (RpTensorView){0}; }

int rp_node_number(const TensorNode *node) { return node != NULL ? node->id : -1; }

bool rp_node_is_output(const TensorNode *node) { return node != NULL && node->is_output; }

int rp_node_layer(const TensorNode *node) { return node != NULL ? node->layer : -1; }

const RpOpParams *rp_node_params(const TensorNode *node) { return node != NULL ? &node->params : NULL; }

const TensorNode *rp_node_source(const TensorNode *node, int i) {
    if (node == NULL) return NULL;
    return i >= 0 && i < RP_MAX_SRC ? node->src[i] : NULL;
}

OpNode rp_graph_op_node(const TensorNode *node) {
    return (OpNode){
        .node = node->graph->nodes[node->id], .from = node->from, .params = node->params, .view = node->view};
}
