/* node.h - a node as the rules of its op see it, and the list of what a fused op does. */
#ifndef OPS_NODE_H
#define OPS_NODE_H

#include "reprise/graph.h"
#include "reprise/kernel.h"

typedef TensorNode *NodeSource;

/* The sources of a node by name: from.linear.bias. NULL where an optional one is absent. */
typedef union NodeSources {
    NodeSource src[RP_MAX_SRC];
    struct {
        NodeSource x;
    } unary;
    struct {
        NodeSource a, b;
    } binary;
    struct {
        NodeSource x, target, pos;
    } store;
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    struct {                                                                                                           \
        NodeSource RP_UNPACK sources;                                                                                  \
    } name;
    RP_OPS(OP, OP)
#undef OP
} NodeSources;

typedef struct OpNode {
    TensorNode  *node;
    NodeSources  from;
    RpOpParams   params;
    RpTensorView view;
} OpNode;

/* A text such as "norm, round, product, bias". */
typedef struct PartList {
    char  *text;
    size_t size, used;
} PartList;

/* Appends `what` if `when` is true. */
void rp_add_part(PartList *list, bool when, const char *what);

#define PARTS(name) void name(PartList *list, const OpNode *n)

#endif
