/* Op route_backward: the gradient of route. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *probs = &args->route_backward.probs, *dy = &args->route_backward.dy;
    const int64_t       k = dy->ne[0];
    RP_TRY(rp_check_array(op, args, "probs", probs, RP_F32, probs->ne[0], probs->ne[1]));
    RP_TRY(rp_check_array(op, args, "result", &args->dst, RP_F32, probs->ne[0], probs->ne[1]));
    RP_TRY(rp_check_array(op, args, "dy", dy, RP_F32, k, probs->ne[1]));
    RP_TRY(rp_check_ids(op, args, &args->route_backward.ids, k, probs->ne[1]));
    if (k <= RP_ROUTE_BACKWARD_MAX) return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "a token must have at most %d experts", RP_ROUTE_BACKWARD_MAX);
}

static SHAPE_RULE(shape) {
    const RpTensorView *dy = in->route_backward.dy, *probs = in->route_backward.probs;
    (void)params;
    if (!rp_shape_is_contiguous(probs) || rp_view_rows(probs) != probs->ne[1])
        REFUSE(RP_E_SHAPE, "the probabilities must be a contiguous f32 matrix");
    if (!rp_shape_is_contiguous(dy) || dy->ne[1] != probs->ne[1] || rp_view_rows(dy) != dy->ne[1])
        REFUSE(RP_E_SHAPE, "dy must be contiguous f32 [k,t]");
    if (dy->ne[0] > RP_ROUTE_BACKWARD_MAX) REFUSE(RP_E_SHAPE, "a token must have at most 256 experts");
    if (!rp_shape_is_choice(in->route_backward.ids, dy->ne[0], dy->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, probs->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_route_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
