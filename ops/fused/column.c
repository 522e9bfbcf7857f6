/* Shared by the rules of the fused products (column.h). */
#include "ops/fused/column.h"

#include "base/types/custom.h"

RpStatus rp_check_column(const char *op, const RpOpArgs *args, const RpTensorView *w, const RpTensorView *x,
                         const RpTensorView *norm, const RpColumnParams *c) {
    const bool quant = rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
    const bool act   = x->dtype == RP_Q8_ACT || c->round != 0; /* the product is of q8_act */
    if (!quant && !rp_dtype_is_float(w->dtype) && !rp_dtype_is_custom(w->dtype))
        return rp_refuse(RP_E_DTYPE, op, args, "the weights must be of a float or weight type");
    if (!quant && act) return rp_refuse(RP_E_DTYPE, op, args, "the weights must be quantised where the column x is");
    if (x->dtype != RP_F32 && x->dtype != RP_Q8_ACT)
        return rp_refuse(RP_E_DTYPE, op, args, "the column x must be f32 or q8_act");
    if (x->dtype == RP_Q8_ACT && (c->norm != 0 || c->round != 0))
        return rp_refuse(RP_E_DTYPE, op, args, "the column x must be f32 to be normalised or quantised");
    if (w->ne[0] != x->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of the weights and the column x must have one length");
    if (rp_view_rows(x) != 1) return rp_refuse(RP_E_SHAPE, op, args, "the column x must be one row");
    if (c->round != 0 && x->ne[0] % 32 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "a column x to be quantised must be whole blocks of 32");
    if (norm->ne[0] > 0 && (norm->dtype != RP_F32 || norm->ne[0] != x->ne[0]))
        return rp_refuse(RP_E_SHAPE, op, args, "norm must be f32 as long as the column x");
    return RP_OK;
}

static bool is_one_token(const RpTensorView *x) { return rp_view_rows(x) == 1 && rp_shape_contiguous_rows(x); }

RpStatus rp_shape_column(const RpTensorView *w, const RpTensorView *x, const RpTensorView *norm,
                         const RpColumnParams *c, const char **why) {
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "weights must be of a weight type");
    if (x->dtype != RP_F32 && x->dtype != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the column must be f32 or q8_act");
    if (x->dtype == RP_Q8_ACT && (c->norm != 0 || c->round != 0))
        REFUSE(RP_E_DTYPE, "the column must be f32 to be normalised or quantised");
    if ((x->dtype == RP_Q8_ACT || c->round != 0) && !rp_dtype_is_quant(w->dtype))
        REFUSE(RP_E_DTYPE, "the weights must be quantised where the column is q8_act");
    if (!rp_shape_contiguous_rows(w)) REFUSE(RP_E_SHAPE, "the rows of the weights must be contiguous");
    if (!is_one_token(x)) REFUSE(RP_E_SHAPE, "the column must be of one token");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "rows of the weights and x must have one length");
    if (c->round != 0 && x->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32");
    if (norm != NULL && (c->norm == 0 || !rp_shape_is_vector(norm, x->ne[0])))
        REFUSE(RP_E_SHAPE, "the weight of the norm must be f32 of the column's length");
    if (c->eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    return RP_OK;
}

bool rp_shape_is_one_matrix(const RpTensorView *w) { return w->ne[2] == 1 && w->ne[3] == 1; }

bool rp_shape_fits(const RpTensorView *vector_or_null, int64_t n) {
    return vector_or_null == NULL || rp_shape_is_vector(vector_or_null, n);
}

bool rp_shape_fits_experts(const RpTensorView *bias, const RpTensorView *w) {
    return bias == NULL || (bias->dtype == RP_F32 && rp_view_is_contiguous(bias) && bias->ne[0] == w->ne[1] &&
                            bias->ne[1] == w->ne[2] && bias->ne[2] == 1 && bias->ne[3] == 1);
}

void rp_column_parts(PartList *list, const RpColumnParams *c) {
    rp_add_part(list, c->norm != 0, "norm");
    rp_add_part(list, c->round != 0, "round");
}
