/* Nodes and their memory. The order of g->nodes is topological (I1): a source exists before its reader, and
 * push appends. Shapes are inferred by the rule of the op when a node is made, and never change (I2). An
 * unknown op or dtype is an error here (I12). */
#include "graph/dump.h"

#include "ops/rules.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

/* Nodes and names lie in an arena, a list of blocks, which is freed as a whole with the graph:
 *
 *     g->blocks -> [next | used | size | node, name, node, ...] -> [full block] -> NULL
 *
 * So the address of a node never changes, and a node that a pass drops needs no free. */
struct GraphBlock {
    GraphBlock *next;
    size_t      used, size;
    _Alignas(16) char data[];
};

ComputeGraph *rp_graph_new(void) {
    ComputeGraph *g = calloc(1, sizeof *g);
    if (g != NULL) g->layer = -1;
    return g;
}

void rp_graph_free(ComputeGraph *g) {
    if (g == NULL) return;
    for (const GraphHold *h = g->held; h != NULL; h = h->next) rp_external_free(h->tensor);
    for (GraphBlock *b = g->blocks, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    free(g->nodes);
    free(g);
}

void rp_graph_set_error(ComputeGraph *g, RpStatus status, const char *text) {
    if (g->status != RP_OK) return;
    g->status = status;
    snprintf(g->error, sizeof g->error, "%s", text);
}

static TensorNode *out_of_memory(ComputeGraph *g) {
    rp_graph_set_error(g, RP_E_NOMEM, "out of memory while building a graph");
    return NULL;
}

void *rp_graph_alloc(ComputeGraph *g, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (g->blocks == NULL || g->blocks->size - g->blocks->used < bytes) {
        const size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        GraphBlock  *b    = calloc(1, sizeof *b + size);
        if (b == NULL) return out_of_memory(g);
        *b        = (GraphBlock){.next = g->blocks, .size = size};
        g->blocks = b;
    }
    void *p = g->blocks->data + g->blocks->used;
    g->blocks->used += bytes;
    return p;
}

RpStatus rp_graph_push(ComputeGraph *g, TensorNode *node) {
    if (g->n_nodes == g->capacity) {
        const int    capacity = g->capacity == 0 ? 256 : 2 * g->capacity;
        TensorNode **nodes    = realloc(g->nodes, (size_t)capacity * sizeof *nodes);
        if (nodes == NULL) {
            out_of_memory(g);
            return rp_fail(RP_E_NOMEM, "%s", g->error);
        }
        g->nodes    = nodes;
        g->capacity = capacity;
    }
    node->id               = g->n_nodes;
    g->nodes[g->n_nodes++] = node;
    g->changed             = true;
    return RP_OK;
}

static const char *copy_name(ComputeGraph *g, const char *name) {
    char *copy = rp_graph_alloc(g, strlen(name) + 1);
    if (copy != NULL) strcpy(copy, name);
    return copy;
}

static TensorNode *new_node(ComputeGraph *g, NodeKind kind, const char *name, int layer) {
    TensorNode *n = rp_graph_alloc(g, sizeof *n);
    if (n == NULL) return NULL;
    *n       = (TensorNode){.graph = g, .id = -1, .kind = kind, .base = n, .layer = layer, .name = copy_name(g, name)};
    n->built = g->finished ? -1 : g->n_built++;
    return n->name != NULL ? n : NULL;
}

static TensorNode *add_leaf(ComputeGraph *g, NodeKind kind, const char *name, const RpTensorView *view) {
    static const char *const kinds[] = {[NODE_WEIGHT] = "weight", [NODE_INPUT] = "input", [NODE_STATE] = "state"};
    char                     text[256], shape[96];
    if (g == NULL || g->status != RP_OK) return NULL;
    if (name == NULL || view == NULL) {
        snprintf(text, sizeof text, "rp_graph_%s: %s is NULL", kinds[kind],
                 name == NULL          ? "name"
                 : kind == NODE_WEIGHT ? "view"
                                       : "ne");
        rp_graph_set_error(g, RP_E_ARG, text);
        return NULL;
    }
    if (g->finished) {
        snprintf(text, sizeof text, "%s '%s': the graph is finished", kinds[kind], name);
        rp_graph_set_error(g, RP_E_STATE, text);
        return NULL;
    }
    const RpDtypeInfo *info = rp_dtype_info(view->dtype);
    if (info == NULL) {
        snprintf(text, sizeof text, "%s '%s': dtype %d, must be a known one", kinds[kind], name, (int)view->dtype);
        rp_graph_set_error(g, RP_E_DTYPE, text);
        return NULL;
    }
    /* The limit keeps byte counts within int64: an element takes at most 4 bytes. */
    bool    ok    = view->ne[0] % info->block_elems == 0;
    int64_t elems = 1;
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        ok = ok && view->ne[i] > 0 && view->ne[i] <= (INT64_MAX >> 5) / elems;
        if (ok) elems *= view->ne[i];
    }
    if (!ok) {
        snprintf(text, sizeof text, "%s '%s': %s, must have positive dimensions and rows of whole blocks", kinds[kind],
                 name, rp_format_shape(view, shape, sizeof shape));
        rp_graph_set_error(g, RP_E_SHAPE, text);
        return NULL;
    }
    TensorNode *n = new_node(g, kind, name, g->layer);
    if (n == NULL) return NULL;
    n->view = *view;
    return rp_graph_push(g, n) == RP_OK ? n : NULL;
}

static TensorNode *add_contiguous_leaf(ComputeGraph *g, NodeKind kind, const char *name, RpDtype dtype,
                                       const int64_t ne[RP_MAX_DIMS]) {
    RpTensorView view = {.dtype = dtype};
    if (rp_dtype_info(dtype) != NULL && ne != NULL) view = rp_view_contiguous(dtype, ne, NULL);
    return add_leaf(g, kind, name, ne != NULL ? &view : NULL);
}

TensorNode *rp_graph_input(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]) {
    return add_contiguous_leaf(g, NODE_INPUT, name, dtype, ne);
}

TensorNode *rp_graph_state(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]) {
    return add_contiguous_leaf(g, NODE_STATE, name, dtype, ne);
}

TensorNode *rp_graph_weight(ComputeGraph *g, const char *name, const RpTensorView *view) {
    if (g != NULL && view != NULL && view->data == NULL) rp_graph_set_error(g, RP_E_ARG, "a weight has no data");
    return add_leaf(g, NODE_WEIGHT, name, view);
}

TensorNode *rp_node_set_name(TensorNode *node, const char *name) {
    if (node == NULL || name == NULL) return node;
    const char *copy = copy_name(node->graph, name);
    if (copy != NULL) node->name = copy;
    return node;
}

void rp_graph_set_layer(ComputeGraph *g, int layer) {
    if (g != NULL) g->layer = layer;
}

void rp_graph_set_recompute(ComputeGraph *g, bool on) {
    if (g != NULL) g->recompute = on;
}

/* A source in an error text: its name, or "silu (node 4)" without one. */
static void name_source(const TensorNode *n, char *text, size_t size) {
    if (n->name != NULL && n->name[0] != '\0')
        snprintf(text, size, "'%.60s'", n->name);
    else
        snprintf(text, size, "%s (node %d)", n->kind == NODE_OP ? rp_op_info(n->op)->name : "leaf", n->id);
}

/* A node that cannot be made. */
typedef struct BadNode {
    TensorOp           op;
    const RpOpParams  *params; /* for the error; NULL: they are not in it */
    TensorNode *const *src;
    int                n_src, layer;
} BadNode;

/* Parameters that are all 0 have no part in a wrong shape. */
static const RpOpParams *params_to_show(TensorOp op, const RpOpParams *params, RpStatus status) {
    static const RpOpParams zero;
    const OpInfo           *info = rp_op_info(op);
    if (info == NULL || info->n_params == 0 || strcmp(info->params[0].name, "unused") == 0)
        return NULL; /* it has none */
    return status != RP_E_SHAPE || memcmp(params, &zero, info->params_bytes) != 0 ? params : NULL;
}

/* ", parameters {...}" */
static void put_params(const BadNode *b, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) return;
    fputs(", parameters ", out);
    rp_dump_params(rp_op_info(b->op), b->params, out);
    fclose(out);
    text[size - 1] = '\0';
}

/* The error text: "mul_mat (node 12, layer 3): sources w='blk.3.k' q4_1 [576,576], x='y' f32 [577]: rows of the weights
 * and x must have one length". A text that is too long loses sources, and keeps `why`. */
static void describe(const ComputeGraph *g, const BadNode *b, const char *why, char *text, size_t size) {
    const OpInfo *info      = rp_op_info(b->op);
    char          where[32] = "";
    const size_t  end       = strlen(why) + sizeof ": ";
    if (b->layer >= 0) snprintf(where, sizeof where, ", layer %d", b->layer);
    size -= end;
    size_t n = (size_t)snprintf(text, size, "%s (node %d%s): sources", info != NULL ? info->name : "unknown op",
                                g->n_nodes, where);
    for (int i = 0; i < b->n_src && n < size; i++) {
        char shape[96] = "absent", name[80] = "";
        if (b->src[i] != NULL) {
            rp_format_shape(&b->src[i]->view, shape, sizeof shape);
            name_source(b->src[i], name, sizeof name);
        }
        const char *source = rp_op_source_name(info, i);
        n += (size_t)snprintf(text + n, size - n, "%s %s%s%s%s%s", i > 0 ? "," : "", source,
                              source[0] != '\0' ? "=" : "", name, name[0] != '\0' ? " " : "", shape);
    }
    if (n < size && b->params != NULL) put_params(b, text + n, size - n);
    snprintf(text + strlen(text), end, ": %s", why);
}

RpShapeRule *rp_graph_shape_rule(TensorOp op) {
    const OpRules *rules = rp_op_rules(op);
    return rules != NULL ? rules->shape : rp_op_info(op)->custom->shape;
}

/* Runs the shape rule of the op. On failure *why completes the text of describe(). */
static RpStatus infer(TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src, RpTensorView *out,
                      const char **why) {
    RpSourceShapes views = {0};
    const OpInfo  *info  = rp_op_info(op);
    if (info == NULL) return *why = "there is no such op", RP_E_ARG;
    if (n_src < info->n_required || n_src > info->n_sources) return *why = "wrong number of sources", RP_E_ARG;
    for (int i = 0; i < n_src; i++) {
        if (src[i] == NULL && i < info->n_required) return *why = "a source is missing", RP_E_ARG;
        if (src[i] != NULL) views.src[i] = &src[i]->view;
    }
    RP_TRY(rp_graph_shape_rule(op)(&views, params, out, why));
    if (rp_dtype_info(out->dtype) != NULL) return RP_OK;
    return *why = "the shape rule gives a result of an unknown dtype", RP_E_DTYPE; /* I12, of a custom op */
}

/* Sets base and offset of one node from those of its sources:
 *
 *     view          base = x->base         offset = x->offset + params.view.offset
 *     other views   base = x->base         offset = x->offset
 *     store         base = target->base    offset = target->offset
 *     other ops     base = itself          offset = 0 */
static void update_base(TensorNode *n) {
    if (n->kind != NODE_OP) return;
    n->base   = n;
    n->offset = 0;
    if (node_is_view(n)) {
        n->base   = n->from.unary.x->base;
        n->offset = n->from.unary.x->offset + (n->op == RP_OP_VIEW ? n->params.view.offset : 0);
    } else if (node_is_store(n)) {
        n->base   = n->from.store.target->base;
        n->offset = n->from.store.target->offset;
    }
}

void rp_graph_update_bases(ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) update_base(g->nodes[i]);
}

TensorNode *rp_graph_make_op(ComputeGraph *g, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src,
                             const char *name, int layer) {
    static const RpOpParams none = {0};
    const char             *why  = "";
    RpTensorView            view = {0};
    const RpStatus          st   = infer(op, params != NULL ? params : &none, src, n_src, &view, &why);
    if (st != RP_OK) {
        char              text[1024];
        const RpOpParams *shown = params_to_show(op, params != NULL ? params : &none, st);
        describe(g, &(BadNode){op, shown, src, n_src, layer}, why, text, sizeof text);
        rp_graph_set_error(g, st, text);
        return NULL;
    }
    TensorNode *n = new_node(g, NODE_OP, name, layer);
    if (n == NULL) return NULL;
    n->op = n->built_op = op;
    n->params           = params != NULL ? *params : none;
    n->view             = view;
    for (int i = 0; i < n_src; i++) n->src[i] = src[i];
    update_base(n);
    return n;
}

static bool same_result(const TensorNode *n, const RpTensorView *view) {
    return view->dtype == n->view.dtype && memcmp(view->ne, n->view.ne, sizeof view->ne) == 0 &&
           memcmp(view->nb, n->view.nb, sizeof view->nb) == 0;
}

bool rp_graph_fits(const TensorNode *node, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src) {
    const char  *why  = "";
    RpTensorView view = {0};
    return infer(op, params, src, n_src, &view, &why) == RP_OK && (node == NULL || same_result(node, &view));
}

/* The checks come before the first change, so that a failure leaves the node as it was. */
RpStatus rp_graph_mutate(TensorNode *node, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src) {
    const char    *why  = "";
    RpTensorView   view = {0};
    const RpStatus st   = infer(op, params, src, n_src, &view, &why);
    if (st == RP_OK && !same_result(node, &view))
        return rp_fail(RP_E_SHAPE, "%s cannot replace %s '%s': its result has another shape or dtype",
                       rp_op_info(op)->name, rp_node_op_name(node), node->name);
    if (st != RP_OK) {
        char          text[1024];
        const BadNode bad = {op, params_to_show(op, params, st), src, n_src, node->layer};
        describe(node->graph, &bad, why, text, sizeof text);
        return rp_fail(st, "%s", text);
    }
    const TensorNode *base   = node->base;
    const size_t      offset = node->offset;
    node->op                 = op;
    node->params             = *params;
    for (int i = 0; i < RP_MAX_SRC; i++) node->src[i] = i < n_src ? src[i] : NULL;
    node->graph->changed = true;
    update_base(node);
    /* Views of this node take their base from it, so they move along. */
    if (node->base != base || node->offset != offset) rp_graph_update_bases(node->graph);
    return RP_OK;
}

/* The entry point of users: rp_graph_make_op with the checks that passes do not need. */
TensorNode *rp_graph_op(ComputeGraph *g, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src) {
    if (g == NULL || g->status != RP_OK) return NULL;
    if ((src == NULL && n_src > 0) || n_src < 0 || n_src > RP_MAX_SRC) {
        rp_graph_set_error(g, RP_E_ARG,
                           src == NULL ? "rp_graph_op: src is NULL" : "rp_graph_op: wrong number of sources");
        return NULL;
    }
    char          text[1024];
    const BadNode bad = {op, NULL, src, n_src, g->layer};
    if (g->finished || (rp_op_info(op) != NULL && (rp_op_info(op)->flags & RP_FLAG_FUSED) != 0)) {
        describe(g, &bad, g->finished ? "the graph is finished" : "only passes make this op", text, sizeof text);
        rp_graph_set_error(g, RP_E_STATE, text);
        return NULL;
    }
    for (int i = 0; i < n_src; i++)
        if (src[i] != NULL && src[i]->graph != g) {
            describe(g, &bad, "a source belongs to another graph", text, sizeof text);
            rp_graph_set_error(g, RP_E_ARG, text);
            return NULL;
        }
    TensorNode *n = rp_graph_make_op(g, op, params, src, n_src, "", g->layer);
    return n != NULL && rp_graph_push(g, n) == RP_OK ? n : NULL;
}
