/* op_table.h - what the graph knows of each op: name, sources, shape rule, flags. */
#ifndef GRAPH_OP_TABLE_H
#define GRAPH_OP_TABLE_H

#include "reprise/ops.h"
#include "reprise/status.h"

/* Fills out's dtype, ne and nb from the sources (NULL: absent). On failure *why is a fixed text that
 * completes "rms_norm: ...". */
typedef RpStatus ShapeRule(const TensorView *const src[RP_MAX_SRC], const OpParams *params, TensorView *out,
                           const char **why);

typedef struct OpInfo {
    const char *name;
    int         min_src, max_src;
    ShapeRule  *shape;
    unsigned    flags;
} OpInfo;

extern const OpInfo rp_op_table[RP_OP_COUNT];

#define OP(ID, name, min_src, max_src, Params, shape, flags) ShapeRule rp_shape_##shape;
RP_OPS(OP)
#undef OP

#endif
