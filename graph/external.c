/* Weights in memory of others. The graph holds their tensors until it is freed, also those of weights that it drops. */
#include "graph/graph.h"

#include "base/external/external.h"

#include <string.h>

static TensorNode *refuse(ComputeGraph *g, RpStatus status, const char *name, const RpTensorView *v, const char *why) {
    char text[256], shape[96];
    snprintf(text, sizeof text, "weight '%.60s': external tensor %s %s", name, rp_format_shape(v, shape, sizeof shape),
             why);
    rp_graph_set_error(g, status, text);
    return NULL;
}

/* Elements of a row, and rows, lie one behind the other as ne says; gaps between rows are allowed. */
static bool in_order(const RpTensorView *v) {
    size_t end = rp_row_bytes(v->dtype, 1);
    if (v->ne[0] > 1 && v->nb[0] != end) return false;
    end *= (size_t)v->ne[0];
    for (int i = 1; i < RP_MAX_DIMS; i++) {
        if (v->ne[i] > 1 && v->nb[i] < end) return false;
        if (v->ne[i] > 1) end = v->nb[i] * (size_t)v->ne[i];
    }
    return true;
}

/* The strides of dimensions of size 1, which no kernel uses, become those of a view without gaps. */
static RpTensorView with_all_strides(RpTensorView v) {
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (v.ne[i] == 1)
            v.nb[i] = i == 0   ? rp_row_bytes(v.dtype, 1)
                      : i == 1 ? rp_row_bytes(v.dtype, v.ne[0])
                               : v.nb[i - 1] * (size_t)v.ne[i - 1];
    return v;
}

TensorNode *rp_graph_weight_external(ComputeGraph *g, const char *name, RpExternalTensor *t) {
    if (g == NULL || g->status != RP_OK) return NULL;
    if (t == NULL || name == NULL) {
        rp_graph_set_error(
            g, RP_E_ARG, t == NULL ? "rp_graph_weight_external: t is NULL" : "rp_graph_weight_external: name is NULL");
        return NULL;
    }
    if (strcmp(t->device, "cpu") != 0)
        return refuse(g, RP_E_UNSUPPORTED, name, &t->view, "is memory of a GPU: weights are read from the host");
    if (!in_order(&t->view))
        return refuse(g, RP_E_SHAPE, name, &t->view, "has strides of another order: rows must follow one another");
    const RpTensorView view = with_all_strides(t->view);
    GraphHold         *hold = rp_graph_alloc(g, sizeof *hold);
    TensorNode        *node = hold != NULL ? rp_graph_weight(g, name, &view) : NULL;
    if (node == NULL) return NULL;
    node->external = t;
    *hold          = (GraphHold){.next = g->held, .tensor = rp_external_hold(t)};
    g->held        = hold;
    return node;
}

RpExternalTensor *rp_node_external(const TensorNode *node) { return node != NULL ? node->external : NULL; }
