/* column.h - what the rules of the fused products share. All take the activations of one token: a column x of n
 * elements, or in experts_down one column per chosen expert.
 *
 *     column  c = quantize(rms_norm(x))    both optional, see RpColumnParams; a q8_act x is used as it is
 *     result  epilogue(w c)                bias, scale, activation, norms, residuals, factor, depending on the op */
#ifndef OPS_FUSED_COLUMN_H
#define OPS_FUSED_COLUMN_H

#include "ops/op.h"

/* x is one row as long as those of w, f32 or q8_act. A q8_act x is final already. Only quantised weights take a
 * quantised x. The weight of the norm, if there is one, is f32 of the same length. */
RpStatus rp_check_column(const char *op, const RpOpArgs *args, const RpTensorView *w, const RpTensorView *x,
                         const RpTensorView *norm, const RpColumnParams *c);

/* The same for a node; `norm` may be NULL. */
RpStatus rp_shape_column(const RpTensorView *w, const RpTensorView *x, const RpTensorView *norm,
                         const RpColumnParams *c, const char **why);

bool rp_shape_is_one_matrix(const RpTensorView *w);

/* NULL, or f32 [n]. */
bool rp_shape_fits(const RpTensorView *vector_or_null, int64_t n);

/* A bias per expert: f32 [m,experts], or NULL. */
bool rp_shape_fits_experts(const RpTensorView *bias, const RpTensorView *w);

void rp_column_parts(PartList *list, const RpColumnParams *c);

#endif
