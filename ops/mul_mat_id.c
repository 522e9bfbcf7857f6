/* Op mul_mat_id: the products of the chosen experts, w [in,out,experts], x [in,1|k,t], ids [k,t] -> [out,k,t]. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->mul_mat_id.w, *x = &args->mul_mat_id.x, *y = &args->dst;
    RP_TRY(rp_check_product(op, args, w, x));
    if (w->ne[0] != x->ne[0]) return rp_refuse(RP_E_SHAPE, op, args, "rows of w and x must have one length");
    if (w->ne[1] != y->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of the result must have an element for each row of w");
    if (x->ne[2] != y->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "x and the result must have as many tokens, their dimension 2");
    if (x->ne[1] != 1 && x->ne[1] != y->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "x must have one row for each token, or one for each id");
    return rp_check_ids(op, args, &args->mul_mat_id.ids, y->ne[1], y->ne[2]);
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *w = in->mul_mat_id.w, *x = in->mul_mat_id.x, *ids = in->mul_mat_id.ids;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        REFUSE(RP_E_DTYPE, "the first source must be of a float or weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "the second source must be f32, or q8_act for quantised weights");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "rows of the weights and x must have one length");
    if (w->ne[3] != 1 || x->ne[3] != 1) REFUSE(RP_E_SHAPE, "the sources must have three dimensions");
    if (!rp_shape_contiguous_rows(w) || !rp_shape_contiguous_rows(x)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (!rp_shape_is_choice(ids, ids->ne[0], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    if (x->ne[1] != 1 && x->ne[1] != ids->ne[0])
        REFUSE(RP_E_SHAPE, "the second source must have one row per token, or one per id");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], ids->ne[0], x->ne[2], 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode      *w = y->from.mul_mat_id.w, *x = y->from.mul_mat_id.x, *ids = y->from.mul_mat_id.ids;
    const RpOpParams p = {.mul_mat_id_backward = {.experts = (int32_t)rp_node_ne(w, 2)}};
    if (rp_backward_needs(b, w))
        rp_backward_give(b, w, rp_backward_op(b, RP_OP_MUL_MAT_ID_BACKWARD, &p, rp_backward_contiguous(b, x), dy, ids));
    if (rp_backward_needs(b, x))
        rp_backward_give(
            b, x,
            rp_backward_sum_like(
                b, rp_backward_op(b, RP_OP_MUL_MAT_ID_TRANSPOSED, NULL, rp_backward_as_f32(b, w), dy, ids), x));
    return NULL;
}

const OpRules rp_rules_mul_mat_id = {.shape = shape, .check = check, .gradient = gradient, .colour = "#f4a582"};
