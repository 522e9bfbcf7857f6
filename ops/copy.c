/* Op copy: converts, or stores rows into the memory of another node. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->copy.x, *y = &args->dst;
    const bool          quantizes = x->dtype == RP_F32 && y->dtype == RP_Q8_0;
    if (quantizes && x->ne[0] % 32 != 0) return rp_refuse(RP_E_SHAPE, op, args, "rows must be whole q8_0 blocks of 32");
    if (!quantizes && (!rp_dtype_is_float(x->dtype) || !rp_dtype_is_float(y->dtype)))
        return rp_refuse(RP_E_DTYPE, op, args, "x and the result must be of float types, or f32 and q8_0");
    if (x->ne[0] != y->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of x and of the result must have one length");
    if (!rp_is_present(&args->copy.to) && rp_view_rows(x) != rp_view_rows(y))
        return rp_refuse(RP_E_SHAPE, op, args, "x and the result must have as many rows");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->copy.x, *dst = in->copy.to, *pos = in->copy.pos;
    const RpDtype       to        = dst != NULL ? dst->dtype : params->copy.dtype;
    const bool          quantizes = x->dtype == RP_F32 && to == RP_Q8_0;
    if (!quantizes && (!rp_dtype_is_float(x->dtype) || !rp_dtype_is_float(to)))
        REFUSE(RP_E_DTYPE, "source and destination must be of float types, or f32 and q8_0");
    if (quantizes && x->ne[0] % 32 != 0) REFUSE(RP_E_SHAPE, "rows must be whole q8_0 blocks of 32");
    if (dst == NULL) {
        if (pos != NULL) REFUSE(RP_E_ARG, "a destination must be given where there are positions");
        *out = rp_view_contiguous(to, x->ne, NULL);
        return RP_OK;
    }
    if (!rp_shape_contiguous_rows(dst)) REFUSE(RP_E_SHAPE, "the destination's rows must be contiguous");
    if (dst->ne[0] != x->ne[0] || dst->ne[2] != x->ne[2] || dst->ne[3] != x->ne[3])
        REFUSE(RP_E_SHAPE, "source and destination must have the same shape; only the number of rows may differ");
    if (pos == NULL && x->ne[1] > dst->ne[1])
        REFUSE(RP_E_SHAPE, "the destination must have at least as many rows as the source");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1])) REFUSE(RP_E_SHAPE, "positions must be i32, one per row");
    *out = *dst;
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    if (y->from.copy.to != NULL) return "a store has no gradient";
    rp_backward_give(b, y->from.copy.x, dy);
    return NULL;
}

const OpRules rp_rules_copy = {.shape = shape, .check = check, .gradient = gradient, .colour = "#fee08b"};
