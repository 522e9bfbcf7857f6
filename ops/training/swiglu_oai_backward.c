/* Op swiglu_oai_backward: the gradients of swiglu_oai, dgate and dup. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *y = &args->dst;
    RP_TRY(rp_check_like(op, args, "dy", &args->swiglu_oai_backward.dy, y));
    RP_TRY(rp_check_like(op, args, "gate", &args->swiglu_oai_backward.gate, y));
    RP_TRY(rp_check_like(op, args, "up", &args->swiglu_oai_backward.up, y));
    RP_TRY(rp_check_like(op, args, "dup", &args->swiglu_oai_backward.dup, y));
    return rp_check_like(op, args, "result", y, y);
}

static SHAPE_RULE(shape) {
    const RpTensorView *dy = in->swiglu_oai_backward.dy, *dup = in->swiglu_oai_backward.dup;
    const RpTensorView *of[] = {dy, in->swiglu_oai_backward.gate, in->swiglu_oai_backward.up, dup};
    if (!(params->swiglu_oai_backward.limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    for (int i = 0; i < 4; i++)
        if (!rp_shape_is_rows(of[i]) || !rp_shape_same(of[i], dy))
            REFUSE(RP_E_SHAPE, "dy, gate, up and dup must be f32 of one shape with contiguous rows");
    *out = rp_view_contiguous(RP_F32, dy->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_swiglu_oai_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
