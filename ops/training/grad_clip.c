/* Op grad_clip: gradients scaled down to a norm. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->grad_clip.x, *norm = &args->grad_clip.norm;
    RP_TRY(rp_check_array(op, args, "x", x, RP_F32, args->dst.ne[0], rp_view_rows(&args->dst)));
    RP_TRY(rp_check_array(op, args, "result", &args->dst, RP_F32, x->ne[0], rp_view_rows(x)));
    if (norm->ne[0] < 1) return rp_refuse(RP_E_SHAPE, op, args, "norm must have an element");
    RP_TRY(rp_check_array(op, args, "norm", norm, RP_F32, norm->ne[0], 1));
    const float max_norm = args->params->grad_clip.max_norm;
    if (max_norm >= 0.0f) return RP_OK;
    return rp_refuse(RP_E_ARG, op, args, "max_norm = %g must be 0 or more", (double)max_norm);
}

static SHAPE_RULE(shape) {
    const RpTensorView *norm = in->grad_clip.norm;
    if (!rp_shape_is_contiguous(in->grad_clip.x)) REFUSE(RP_E_SHAPE, "the gradient must be contiguous f32");
    if (!rp_shape_is_vector(norm, norm->ne[0])) REFUSE(RP_E_SHAPE, "the norm must be the first of an f32 vector");
    if (!(params->grad_clip.max_norm >= 0.0f)) REFUSE(RP_E_ARG, "max_norm must not be negative");
    return rp_shape_unary(in, params, out, why);
}

const OpRules rp_rules_grad_clip = {.shape = shape, .check = check, .gradient = rp_gradient_none};
