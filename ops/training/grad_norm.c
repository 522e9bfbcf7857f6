/* Op grad_norm: the norm of all gradients, tensor after tensor. */
#include "ops/op.h"

/* x may have no elements: nn.h sets the sum to 0 by it. */
static CHECK_RULE(check) {
    const RpTensorView *x = &args->grad_norm.x, *sums = &args->grad_norm.sums;
    RP_TRY(rp_check_array(op, args, "x", x, RP_F32, x->ne[0], rp_view_rows(x)));
    RP_TRY(rp_check_array(op, args, "sums", sums, RP_F32, RP_GRAD_NORM_FLOATS, 1));
    if (args->dst.data != sums->data) return rp_refuse(RP_E_ARG, op, args, "the result must be the memory of sums");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    (void)params;
    if (!rp_shape_is_contiguous(in->grad_norm.x)) REFUSE(RP_E_SHAPE, "the gradient must be contiguous f32");
    if (!rp_shape_is_vector(in->grad_norm.sums, RP_GRAD_NORM_FLOATS))
        REFUSE(RP_E_SHAPE, "the state must be f32 [RP_GRAD_NORM_FLOATS]");
    *out = *in->grad_norm.sums;
    return RP_OK;
}

const OpRules rp_rules_grad_norm = {.shape = shape, .check = check, .gradient = rp_gradient_none};
