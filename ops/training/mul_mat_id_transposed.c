/* Op mul_mat_id_transposed: the gradient of mul_mat_id with respect to the activations. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->mul_mat_id_transposed.w, *x = &args->mul_mat_id_transposed.x;
    const int64_t       k = x->ne[1], t = x->ne[2];
    RP_TRY(rp_check_columns(op, args, "w", w, w->ne[0], w->ne[1], w->ne[2]));
    RP_TRY(rp_check_columns(op, args, "x", x, w->ne[1], k, t));
    RP_TRY(rp_check_array(op, args, "ids", &args->mul_mat_id_transposed.ids, RP_I32, k, t));
    return rp_check_columns(op, args, "result", &args->dst, w->ne[0], k, t);
}

static SHAPE_RULE(shape) {
    const RpTensorView *w = in->mul_mat_id_transposed.w, *x = in->mul_mat_id_transposed.x;
    (void)params;
    if (!rp_shape_is_rows(w) || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "w must be f32 [n,m,experts] with contiguous rows");
    if (!rp_shape_is_columns(x, w->ne[1], x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "x must be f32 [m,k,t] with contiguous rows");
    if (!rp_shape_is_choice(in->mul_mat_id_transposed.ids, x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[0], x->ne[1], x->ne[2], 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_mul_mat_id_transposed = {.shape = shape, .check = check, .gradient = rp_gradient_none};
