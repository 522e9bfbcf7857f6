/* Op aux_loss_backward: the gradient of aux_loss. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const int64_t experts = args->dst.ne[0], tokens = args->params->aux_loss_backward.tokens;
    RP_TRY(rp_check_array(op, args, "load", &args->aux_loss_backward.load, RP_F32, experts, 1));
    RP_TRY(rp_check_array(op, args, "dy", &args->aux_loss_backward.dy, RP_F32, 1, 1));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, experts, tokens);
}

static SHAPE_RULE(shape) {
    const RpTensorView *load   = in->aux_loss_backward.load;
    const int32_t       tokens = params->aux_loss_backward.tokens;
    if (tokens < 1) REFUSE(RP_E_ARG, "there must be at least one token");
    if (!rp_shape_is_vector(load, load->ne[0])) REFUSE(RP_E_SHAPE, "the load must be an f32 vector");
    if (!rp_shape_is_vector(in->aux_loss_backward.dy, 1)) REFUSE(RP_E_SHAPE, "dy must be one f32");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){load->ne[0], tokens, 1, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_aux_loss_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
