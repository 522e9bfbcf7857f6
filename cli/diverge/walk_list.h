/* walk_list.h - the nodes of a graph whose values two runs can have in common, in the order in which they are computed.
 * Their keys name what the model code built, so nodes of graphs with other passes, types or files can be matched:
 *
 *     NAME|OP|N      the N-th built node of this name and op: "blk.0.attn_residual|add|0"
 *     NAME|+OP|N     the N-th one that a pass made
 *
 * N counts the built nodes that passes have fused into others too, so it does not depend on the passes. */
#ifndef CLI_DIVERGE_WALK_LIST_H
#define CLI_DIVERGE_WALK_LIST_H

#include "reprise/reprise.h"

typedef struct WalkNode {
    const TensorNode *node;
    int               step; /* of the plan, that computes it */
    char             *key;  /* owned */
    bool              last; /* no later built node has its name */
} WalkNode;

typedef struct WalkList {
    WalkNode *items;
    int       n;
} WalkList;

/* All nodes with a kernel, and nodes with a kernel that a pass has turned into views. RP_E_NOMEM. The caller frees the
 * list, also after a failure. */
RP_NODISCARD RpStatus cli_walk_list(const ComputeGraph *g, const ExecPlan *plan, WalkList *out);
void                  cli_walk_list_free(WalkList *list);

/* The index of a key; -1: there is none. */
int cli_walk_find(const WalkList *list, const char *key);

#endif
