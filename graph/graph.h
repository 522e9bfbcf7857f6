/* graph.h - the internals of ComputeGraph and TensorNode, for the passes, the plan and the dumps.
 *
 * A graph is an array of node pointers in topological order (I1). The address of a node never changes. Its
 * index `id` changes when a pass inserts, drops or sorts nodes. Views and stores use the memory of another
 * node:
 *
 *     address of a node = address of node->base + node->offset     (base == node, offset == 0 for all others) */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "reprise/external.h"

#include "base/format.h"
#include "base/op_table.h"
#include "ops/node.h"

typedef struct NodeOrigin NodeOrigin; /* origin.h */

typedef enum NodeKind { NODE_OP, NODE_WEIGHT, NODE_INPUT, NODE_STATE } NodeKind;

struct TensorNode {
    ComputeGraph *graph;
    int           id; /* index in graph->nodes; -1: not in it */
    NodeKind      kind;
    TensorOp      op; /* valid for NODE_OP */
    RpOpParams    params;
    RpTensorView  view; /* data is NULL except for weights */
    union {
        TensorNode *src[RP_MAX_SRC]; /* NULL where an optional source is absent */
        NodeSources from;            /* the same by name: node->from.linear.bias */
    };
    TensorNode       *base;   /* the node whose memory this one uses: itself, except for views and stores */
    size_t            offset; /* bytes from the start of base's memory */
    const char       *name;
    int               layer;
    bool              is_output;
    RpExternalTensor *external; /* of a weight, held by the graph; or NULL */
    /* Where the node comes from (origin.h). `built`: its place in the order of building; -1: a pass made it. */
    int         built;
    TensorOp    built_op;  /* its op when it was built or made; valid for NODE_OP */
    NodeOrigin *origins;   /* built nodes whose work it does, in the order of building; NULL: at most itself */
    uint64_t    passes[2]; /* bit i: pass i made or changed it */
    bool        mark;      /* scratch flag of the running pass */
    int         tag;       /* scratch number of the running pass, such as a count of readers */
};

typedef struct GraphBlock GraphBlock;

/* A list of external tensors. */
typedef struct GraphHold {
    struct GraphHold *next;
    RpExternalTensor *tensor;
} GraphHold;

struct ComputeGraph {
    TensorNode **nodes;
    int          n_nodes, capacity;
    GraphBlock  *blocks; /* the arena of nodes and names */
    GraphHold   *held;   /* external tensors of weights, in the arena */
    int          layer;
    int          n_built;           /* nodes that the builder has made */
    int          pass;              /* number of the running pass */
    bool         recompute;         /* rp_graph_set_recompute */
    bool         finished, changed; /* changed: set by rp_graph_mutate and rp_graph_push, cleared by a pass */
    RpStatus     status;            /* the first failure while building; later ones are not recorded */
    char         error[1024];       /* its text */
};

/* Zeroed memory of the graph's arena, freed with the graph. When out of memory: NULL, and the graph holds
 * the error. */
void *rp_graph_alloc(ComputeGraph *g, size_t bytes);

/* Records a failure of building, unless one is recorded already. */
void rp_graph_set_error(ComputeGraph *g, RpStatus status, const char *text);

/* The shape rule of an op, also of a custom op. `op` is an op. */
RpShapeRule *rp_graph_shape_rule(TensorOp op);

/* A new op node with inferred shape, not yet in graph->nodes. Unlike rp_graph_op it accepts fused ops, for
 * passes. On failure: NULL, and the graph holds the error. */
TensorNode *rp_graph_make_op(ComputeGraph *g, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src,
                             const char *name, int layer);

/* True if the op accepts these sources and, unless `node` is NULL, infers the shape and dtype of `node`. */
bool rp_graph_fits(const TensorNode *node, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src);

/* Turns `node` into another op. Its address, name and readers stay, so the op must infer the same shape,
 * strides and dtype; otherwise the call fails and the node is unchanged. */
RP_NODISCARD RpStatus rp_graph_mutate(TensorNode *node, TensorOp op, const RpOpParams *params, TensorNode *const src[],
                                      int n_src);

/* Recomputes base and offset of every node from its sources. graph->nodes must be in topological order. */
void rp_graph_update_bases(ComputeGraph *g);

/* The node as the rules of its op see it. */
OpNode rp_graph_op_node(const TensorNode *node);

/* Appends `node` to graph->nodes and sets its id. */
RP_NODISCARD RpStatus rp_graph_push(ComputeGraph *g, TensorNode *node);

/* Drops every node that neither an output nor a store into a state depends on. */
void rp_graph_drop_dead(ComputeGraph *g);

/* Counts into `tag` how often each node is a source of a node in graph->nodes, plus 1 if it is an output. */
void rp_graph_count_uses(ComputeGraph *g);

/* True for an op whose result is the memory of its source `target`, such as a copy into a cache. */
static inline bool node_is_store(const TensorNode *n) {
    return n->kind == NODE_OP && (rp_op_info(n->op)->flags & RP_FLAG_WRITES_DST) != 0 && n->from.store.target != NULL;
}

/* True if the node writes to the memory of its source s, either as its result (a store) or in addition to its result
 * (RP_WRITES). */
static inline bool node_writes(const TensorNode *n, int s) {
    if (n->kind != NODE_OP || n->src[s] == NULL) return false;
    return (rp_op_info(n->op)->flags >> (RP_FLAG_WRITES + s) & 1) != 0 || (s == RP_STORE_TARGET && node_is_store(n));
}

static inline bool node_is_view(const TensorNode *n) {
    return n->kind == NODE_OP && (rp_op_info(n->op)->flags & RP_FLAG_VIEW) != 0;
}

/* True if the node runs a kernel, which makes it a step of the plan. */
static inline bool node_is_kernel(const TensorNode *n) { return n->kind == NODE_OP && !node_is_view(n); }

#endif
