/* shape.h - helpers of the shape rules. A rule checks sources and parameters of one op and infers its result:
 *
 *     static SHAPE_RULE(shape) { if (in->silu.x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32"); ... }
 *
 * A source that is absent is NULL. The text of REFUSE completes "op (node i): sources ...: ", so it needs no shapes.
 * Results are contiguous, except those of stores, which are the destination itself. */
#ifndef OPS_SHAPE_H
#define OPS_SHAPE_H

#include "reprise/extend.h"

#define REFUSE(status, text) return *why = (text), (status)

#define SHAPE_RULE(name)                                                                                               \
    RpStatus name(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why)

/* Rules that several ops have. */
RpShapeRule rp_shape_unary;    /* the result is like the first source, f32 with contiguous rows */
RpShapeRule rp_shape_binary;   /* and the second source repeats to the shape of the first */
RpShapeRule rp_shape_gradient; /* and the second source has the shape of the first */

bool rp_shape_same(const RpTensorView *a, const RpTensorView *b); /* all of ne; not dtype or strides */

/* True if the elements or blocks of a row are adjacent; the rows themselves may have gaps between them. */
bool rp_shape_contiguous_rows(const RpTensorView *v);

/* i32 [n]: one number per token. */
bool rp_shape_is_index(const RpTensorView *v, int64_t n);

/* f32 [n]. */
bool rp_shape_is_vector(const RpTensorView *v, int64_t n);

/* i32 [k,t], contiguous: k experts for each of t tokens. */
bool rp_shape_is_choice(const RpTensorView *v, int64_t k, int64_t n_tok);

/* f32 with contiguous rows; all of it contiguous; and a matrix with contiguous rows. */
bool rp_shape_is_rows(const RpTensorView *v);
bool rp_shape_is_contiguous(const RpTensorView *v);
bool rp_shape_is_matrix(const RpTensorView *v);

#endif
