/* rp_graph_backward: walks the nodes from the loss to the first one and lets the rule of each op (OpRules.gradient) add
 * the nodes of the gradients of its sources:
 *
 *     forward    w ---+                      backward    dw <- gemm(dy^T, x)
 *                x -> y = mul_mat -> loss                dx <- gemm(dy, w) <- dy <- loss
 *
 * A node that no parameter leads to gets none. The order of the walk fixes the order in which gradients of one node are
 * added, so the bits of the result are fixed too (I8). */
#include "graph/backward.h"

#include "base/argument.h"
#include "ops/rules.h"

#include <stdlib.h>
#include <string.h>

static GradientRule *rule_of(TensorOp op) {
    const OpRules *rules = rp_op_rules(op);
    return rules != NULL ? rules->gradient : rp_gradient_none;
}

bool rp_backward_needs(const Backward *b, const TensorNode *source) { return source != NULL && b->needs[source->tag]; }

void rp_backward_give(Backward *b, TensorNode *source, TensorNode *part) {
    if (!rp_backward_needs(b, source) || part == NULL) return;
    TensorNode **grad = &b->grad[source->tag];
    *grad = *grad == NULL ? part : rp_add(b->g, rp_backward_contiguous(b, *grad), rp_backward_contiguous(b, part));
}

TensorNode *rp_backward_after(Backward *b, TensorNode *buffer, TensorNode *writer) {
    if (buffer == NULL || writer == NULL) return NULL;
    TensorNode *n =
        rp_graph_make_op(b->g, RP_OP_AFTER, NULL, (TensorNode *const[]){buffer, writer}, 2, "", b->g->layer);
    return n != NULL && rp_graph_push(b->g, n) == RP_OK ? n : NULL;
}

static RpStatus refuse(ComputeGraph *g, RpStatus status, const TensorNode *n, const char *why) {
    char text[512], shape[96];
    if (g->status == RP_OK) {
        snprintf(text, sizeof text, "rp_graph_backward: %s '%s' %s (node %d): %s",
                 n->kind == NODE_OP ? rp_node_op_name(n) : "leaf", n->name,
                 rp_format_shape(&n->view, shape, sizeof shape), n->id, why);
        rp_graph_set_error(g, status, text);
    }
    return rp_fail(g->status, "%s", g->error);
}

static bool is_float(const TensorNode *n) {
    return n->view.dtype == RP_F32 || n->view.dtype == RP_F16 || n->view.dtype == RP_BF16;
}

/* A node needs a gradient if it is a parameter, or an op of floats that reads one that does. */
static void find_needs(const ComputeGraph *g, int n_nodes, TensorNode *const params[], int n_params, bool *needs) {
    for (int i = 0; i < n_params; i++) needs[params[i]->id] = true;
    for (int i = 0; i < n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        if (n->kind != NODE_OP || !is_float(n) || rule_of(n->op) == rp_gradient_constant) continue;
        for (int s = 0; s < RP_MAX_SRC; s++) needs[i] = needs[i] || (n->src[s] != NULL && needs[n->src[s]->id]);
    }
}

static RpStatus check_arguments(ComputeGraph *g, const TensorNode *loss, TensorNode *const params[], int n_params) {
    if (g->status != RP_OK) return rp_fail(g->status, "%s", g->error);
    if (g->finished) return rp_fail(RP_E_STATE, "rp_graph_backward: the graph is finished");
    if (n_params < 1 || n_params > g->n_nodes)
        return rp_fail(RP_E_ARG, "rp_graph_backward: %d parameters, must be from 1 to %d, the nodes", n_params,
                       g->n_nodes);
    if (loss->graph != g) return rp_fail(RP_E_ARG, "rp_graph_backward: the loss is not a node of this graph");
    if (loss->view.dtype != RP_F32 || loss->kind != NODE_OP)
        return rp_fail(RP_E_DTYPE, "rp_graph_backward: the loss must be a computed node of type f32");
    for (int i = 0; i < n_params; i++) {
        if (params[i] == NULL || params[i]->graph != g)
            return rp_fail(RP_E_ARG, "rp_graph_backward: parameter %d is not a node of this graph", i);
        if (!is_float(params[i]))
            return rp_fail(RP_E_DTYPE, "rp_graph_backward: parameter %d, '%s', is %s, must be f32, f16 or bf16", i,
                           params[i]->name, rp_dtype_name(params[i]->view.dtype));
    }
    return RP_OK;
}

static RpStatus walk(Backward *b, TensorNode *loss) {
    ComputeGraph *g     = b->g;
    const int     layer = g->layer;
    RpStatus      st    = RP_OK;
    g->layer            = loss->layer;
    RpOpParams ones     = {.fill = {.value = 1.0f}};
    memcpy(ones.fill.ne, loss->view.ne, sizeof ones.fill.ne);
    b->grad[loss->id] = rp_graph_op(g, RP_OP_FILL, &ones, NULL, 0);
    for (int i = loss->id; i >= 0 && st == RP_OK; i--) {
        const TensorNode *n = g->nodes[i];
        if (g->recompute) st = rp_backward_recompute(b, i);
        if (st != RP_OK || n->kind != NODE_OP || !b->needs[i] || b->grad[i] == NULL) continue;
        bool inner = false; /* a parameter that is itself computed from no other parameter ends the walk */
        for (int s = 0; s < RP_MAX_SRC; s++) inner = inner || rp_backward_needs(b, n->src[s]);
        if (!inner) continue;
        g->layer          = n->layer;
        const OpNode seen = rp_graph_op_node(b->again[i] != NULL ? b->again[i] : n);
        const char  *why  = rule_of(n->op)(b, &seen, rp_backward_contiguous(b, b->grad[i]));
        if (why != NULL || g->status != RP_OK) st = refuse(g, RP_E_UNSUPPORTED, n, why != NULL ? why : "");
    }
    g->layer = layer;
    return st;
}

static RpStatus collect(Backward *b, TensorNode *const params[], int n_params, TensorNode *grads[]) {
    for (int i = 0; i < n_params; i++) {
        TensorNode *grad = b->grad[params[i]->id];
        if (grad == NULL) return refuse(b->g, RP_E_ARG, params[i], "the loss does not depend on this parameter");
        grads[i] = rp_backward_contiguous(b, grad);
        if (grads[i] == NULL) return rp_fail(b->g->status, "%s", b->g->error);
    }
    return RP_OK;
}

RpStatus rp_graph_backward(ComputeGraph *g, TensorNode *loss, TensorNode *const params[], int n_params,
                           TensorNode *grads[]) {
    RP_NOT_NULL(g, "g");
    RP_NOT_NULL(loss, "loss");
    RP_NOT_NULL(params, "params");
    RP_NOT_NULL(grads, "grads");

    RP_TRY(check_arguments(g, loss, params, n_params));
    const int n = g->n_nodes;
    Backward  b = {.g       = g,
                   .n_nodes = n,
                   .grad    = calloc((size_t)n, sizeof(TensorNode *)),
                   .needs   = calloc((size_t)n, sizeof(bool)),
                   .again   = calloc((size_t)n, sizeof(TensorNode *))};
    RpStatus  st;
    if (b.grad == NULL || b.needs == NULL || b.again == NULL) {
        st = rp_fail(RP_E_NOMEM, "out of memory in rp_graph_backward");
    } else {
        for (int i = 0; i < n; i++) g->nodes[i]->tag = i;
        find_needs(g, n, params, n_params, b.needs);
        st = walk(&b, loss);
        if (st == RP_OK) st = collect(&b, params, n_params, grads);
    }
    free(b.grad);
    free(b.needs);
    free(b.again);
    return st;
}
