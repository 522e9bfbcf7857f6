/* Op soft_cap: y = cap * tanh(scale * x / cap), which keeps scores and logits between -cap and cap. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *cap = &args->soft_cap.cap;
    RP_TRY(rp_check_unary(op, args));
    if (cap->dtype != RP_F32 || rp_view_elems(cap) != 1) return rp_refuse(RP_E_SHAPE, op, args, "cap must be f32 [1]");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    if (!rp_shape_is_vector(in->soft_cap.cap, 1)) REFUSE(RP_E_SHAPE, "the cap must be f32 [1]");
    return rp_shape_unary(in, params, out, why);
}

const OpRules rp_rules_soft_cap = {.shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#d9f0d3"};
