/* op_table.h - the description of each op: name, number of sources, shape rule, flags.
 *
 *     TensorOp   0 .. RP_OP_COUNT-1                     rows of ops.h
 *                RP_OP_COUNT .. RP_OP_COUNT+n_custom-1  custom ops, in the order of rp_op_register */
#ifndef GRAPH_OP_TABLE_H
#define GRAPH_OP_TABLE_H

#include "reprise/extend.h"

/* NULL for a number that is no op. For rows of ops.h the kernel fields are NULL: each backend has a table
 * of kernels. */
const OpDescription *rp_op_info(TensorOp op);

/* A name is one or more letters, digits and _. */
size_t rp_name_length(const char *s); /* of the name at the start of s; 0 if there is none */
bool   rp_is_name(const char *s);     /* true if all of s is a name; false for NULL */

/* Finds an op by the `len` characters at `name`, which need not be terminated. Custom ops are found too. */
bool rp_op_find(const char *name, size_t len, TensorOp *out);

#define OP(ID, name, min_src, max_src, Params, shape, flags) ShapeRule rp_shape_##shape;
RP_OPS(OP)
#undef OP

#endif
