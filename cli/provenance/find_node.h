/* find_node.h - nodes of a graph by what a user types: "NAME", "NAME:OP" where several nodes share a name, or "#N", the
 * number that `reprise graph` prints. */
#ifndef CLI_PROVENANCE_FIND_NODE_H
#define CLI_PROVENANCE_FIND_NODE_H

#include "reprise/reprise.h"

enum { FOUND_NODES = 64 };

typedef struct FoundNodes {
    const TensorNode *nodes[FOUND_NODES]; /* in the order of the graph */
    int               n;                  /* > 0; may be larger than FOUND_NODES: the others are left out */
    bool              replaced; /* the name is that of a built node which a pass took out: the nodes do its work */
} FoundNodes;

/* RP_E_ARG, with names that are near, if there is no such node. */
RP_NODISCARD RpStatus cli_find_nodes(const ComputeGraph *g, const char *text, FoundNodes *out);

/* The same for exactly one node that is in the graph. RP_E_ARG lists the nodes that share the name, or do the work of a
 * node that a pass took out. */
RP_NODISCARD RpStatus cli_find_node(const ComputeGraph *g, const char *text, const TensorNode **out);

#endif
