/* Op cross_entropy_backward: the gradient of cross_entropy. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const int64_t rows = rp_view_rows(&args->dst);
    RP_TRY(rp_check_unary(op, args));
    RP_TRY(rp_check_array(op, args, "targets", &args->cross_entropy_backward.targets, RP_I32, rows, 1));
    return rp_check_array(op, args, "dy", &args->cross_entropy_backward.dy, RP_F32, rows, 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->cross_entropy_backward.x;
    RP_TRY(rp_shape_targets(x, in->cross_entropy_backward.targets, why));
    if (!rp_shape_is_vector(in->cross_entropy_backward.dy, x->ne[1]))
        REFUSE(RP_E_SHAPE, "dy must be f32, one per row of logits");
    return rp_shape_unary(in, params, out, why);
}

const OpRules rp_rules_cross_entropy_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
