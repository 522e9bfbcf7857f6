/* Op mul_mat_id_backward: the gradient of mul_mat_id with respect to the weights. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->mul_mat_id_backward.x, *dy = &args->mul_mat_id_backward.dy,
                       *ids = &args->mul_mat_id_backward.ids;
    const int64_t k = dy->ne[1], t = dy->ne[2], n_expert = args->params->mul_mat_id_backward.experts;
    RP_TRY(rp_check_columns(op, args, "dy", dy, dy->ne[0], k, t));
    RP_TRY(rp_check_columns(op, args, "x", x, x->ne[0], x->ne[1] == 1 ? 1 : k, t));
    RP_TRY(rp_check_array(op, args, "ids", ids, RP_I32, k, t));
    RP_TRY(rp_check_columns(op, args, "result", &args->dst, x->ne[0], dy->ne[0], n_expert));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, x->ne[0], dy->ne[0] * n_expert);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->mul_mat_id_backward.x, *dy = in->mul_mat_id_backward.dy;
    const int64_t       k = dy->ne[1], t = dy->ne[2], n_expert = params->mul_mat_id_backward.experts;
    if (n_expert < 1) REFUSE(RP_E_ARG, "there must be experts");
    if (!rp_shape_is_columns(dy, dy->ne[0], k, t) || !rp_shape_is_columns(x, x->ne[0], x->ne[1] == 1 ? 1 : k, t))
        REFUSE(RP_E_SHAPE, "x [n,k,t] or [n,1,t] and dy [m,k,t] must be f32 with contiguous rows");
    if (!rp_shape_is_choice(in->mul_mat_id_backward.ids, k, t))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[0], dy->ne[0], n_expert, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_mul_mat_id_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
