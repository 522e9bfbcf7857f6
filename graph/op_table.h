/* op_table.h - what the graph knows of each op: name, sources, shape rule, flags. */
#ifndef GRAPH_OP_TABLE_H
#define GRAPH_OP_TABLE_H

#include "reprise/extend.h"

/* NULL for a number that is no op. The rows of ops.h have no kernels here: the tables of the backends do. */
const OpDescription *rp_op_info(TensorOp op);

/* A name: letters, digits and _, at least one. The length is that of what stands at the start of s. */
size_t rp_name_length(const char *s);
bool   rp_is_name(const char *s);

/* By the length of a name that need not end there; RP_OP_COUNT and what is beyond are ops of extend.h. */
bool rp_op_find(const char *name, size_t len, TensorOp *out);

#define OP(ID, name, min_src, max_src, Params, shape, flags) ShapeRule rp_shape_##shape;
RP_OPS(OP)
#undef OP

#endif
