/* Op route: the weights of the selected experts. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *probs = &args->route.probs, *y = &args->dst;
    if (probs->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "probs must be f32");
    if (y->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "the result must be f32");
    return rp_check_ids(op, args, &args->route.ids, y->ne[0], probs->ne[1]);
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *probs = in->route.probs, *ids = in->route.ids;
    if (probs->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the probabilities must be f32");
    if (probs->ne[2] != 1 || probs->ne[3] != 1 || !rp_shape_contiguous_rows(probs))
        REFUSE(RP_E_SHAPE, "the probabilities must be a matrix of contiguous rows");
    if (!rp_shape_is_choice(ids, ids->ne[0], probs->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    *out = rp_view_contiguous(RP_F32, ids->ne, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    const RpOpParams p = {.route_backward = y->params.route};
    rp_backward_give(b, y->from.route.probs,
                     rp_backward_op(b, RP_OP_ROUTE_BACKWARD, &p, dy, rp_backward_contiguous(b, y->from.route.probs),
                                    y->from.route.ids));
    return NULL;
}

const OpRules rp_rules_route = {.shape = shape, .check = check, .gradient = gradient, .colour = "#e78ac3"};
