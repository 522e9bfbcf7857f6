/* shape.h - helpers of the shape rules. A rule validates sources and parameters of one op and infers its
 * result:
 *
 *     SHAPE_RULE(unary) { if (in->unary.x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32"); ... }
 *
 * A source that is absent is NULL. The text of REFUSE completes "op (node i): sources ...: ", so it needs
 * no shapes. */
#ifndef GRAPH_SHAPE_H
#define GRAPH_SHAPE_H

#include "base/op_table.h"

#define REFUSE(status, text) return *why = (text), (status)

#define SHAPE_RULE(name)                                                                                     \
    RpStatus rp_shape_##name(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out,          \
                             const char **why)

/* The rule of an op, also of a custom op. `op` is an op. */
RpShapeRule *rp_shape_rule(TensorOp op);

#define OP(ID, name, required, sources, Params, fields, shape, flags) RpShapeRule rp_shape_##shape;
RP_OPS(OP)
#undef OP

bool rp_shape_same(const RpTensorView *a, const RpTensorView *b); /* all of ne; not dtype or strides */

/* True if the elements or blocks of a row are adjacent; the rows themselves may have gaps between them. */
bool rp_shape_contiguous_rows(const RpTensorView *v);

/* i32 [n]: one number per token. */
bool rp_shape_is_index(const RpTensorView *v, int64_t n);

/* f32 [n]. */
bool rp_shape_is_vector(const RpTensorView *v, int64_t n);

/* i32 [k,t], contiguous: k experts for each of t tokens. */
bool rp_shape_is_choice(const RpTensorView *v, int64_t k, int64_t n_tok);

#endif
