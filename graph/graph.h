/* graph.h - the inside of a ComputeGraph, for the passes, the plan and the dumps. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "reprise/graph.h"

#include "graph/op_table.h"

typedef enum NodeKind { NODE_OP, NODE_WEIGHT, NODE_INPUT, NODE_STATE } NodeKind;

struct TensorNode {
    ComputeGraph *graph;
    int           id; /* its place in graph->nodes */
    NodeKind      kind;
    TensorOp      op; /* of NODE_OP */
    OpParams      params;
    TensorView    view;            /* data is set for weights only */
    TensorNode   *src[RP_MAX_SRC]; /* NULL where an optional source is absent */
    TensorNode   *base;   /* the node whose memory this one lies in: itself but for views and stores */
    size_t        offset; /* bytes from the start of base */
    const char   *name;
    int           layer;
    bool          is_output;
    bool          mark; /* scratch of the pass at work */
    int           tag;  /* likewise */
};

typedef struct GraphBlock GraphBlock;

struct ComputeGraph {
    TensorNode **nodes;
    int          n_nodes, capacity;
    GraphBlock  *blocks; /* where nodes and names live */
    int          layer;
    bool         finished, changed; /* changed: by mutate and push, for who has cleared it */
    RpStatus     status; /* the first failure of building, with its text */
    char         error[1024];
};

/* Memory that lives as long as the graph, zeroed; NULL, with the graph failed, when there is none. */
void *rp_graph_alloc(ComputeGraph *g, size_t bytes);

/* Records the first failure of building. */
void rp_graph_set_error(ComputeGraph *g, RpStatus status, const char *text);

/* A new op node, not yet in graph->nodes; shapes inferred. For passes: fused ops are allowed. On failure NULL
 * with the graph's error set. */
TensorNode *rp_graph_make_op(ComputeGraph *g, TensorOp op, const OpParams *params, TensorNode *const src[],
                             int n_src, const char *name, int layer);

/* Whether the op takes these sources, and gives the shape and dtype of `node` unless that is NULL. */
bool rp_graph_fits(const TensorNode *node, TensorOp op, const OpParams *params, TensorNode *const src[],
                   int n_src);

/* Makes `node` compute something else with the same result shape; its readers stay. Fails where shape or
 * dtype would change. */
RP_NODISCARD RpStatus rp_graph_mutate(TensorNode *node, TensorOp op, const OpParams *params,
                                      TensorNode *const src[], int n_src);

/* Where each node lies, from the sources of views and stores; nodes stand in order. */
void rp_graph_settle(ComputeGraph *g);

/* Appends to graph->nodes and sets the id. */
RP_NODISCARD RpStatus rp_graph_push(ComputeGraph *g, TensorNode *node);

/* Drops the nodes that neither an output nor a store into a state needs. */
void rp_graph_drop_dead(ComputeGraph *g);

/* How many sources of other nodes each node is, counted over graph->nodes into `tag`. */
void rp_graph_count_uses(ComputeGraph *g);

static inline bool node_is_store(const TensorNode *n) {
    return n->kind == NODE_OP && (rp_op_info(n->op)->flags & RP_FLAG_WRITES_DST) != 0 && n->src[1] != NULL;
}

/* Whether the node writes to the memory of its source s. */
static inline bool node_writes(const TensorNode *n, int s) {
    if (n->kind != NODE_OP || n->src[s] == NULL) return false;
    return (rp_op_info(n->op)->flags >> (RP_FLAG_WRITES + s) & 1) != 0 || (s == 1 && node_is_store(n));
}

static inline bool node_is_view(const TensorNode *n) {
    return n->kind == NODE_OP && (rp_op_info(n->op)->flags & RP_FLAG_VIEW) != 0;
}
static inline bool node_is_kernel(const TensorNode *n) { return n->kind == NODE_OP && !node_is_view(n); }

/* "q4_1 [576,576]": trailing ones are left out. Returns buf. */
const char *rp_format_shape(const TensorView *v, char *buf, size_t size);

#endif
