/* Op fill: a constant, where a sum begins and memory that another op writes to. */
#include "ops/op.h"

static CHECK_RULE(check) {
    RpTensorView like = args->dst;
    for (int i = 0; i < RP_MAX_DIMS; i++) like.ne[i] = args->params->fill.ne[i];
    RP_TRY(rp_check_like(op, args, "result", &args->dst, &like));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, like.ne[0], rp_view_rows(&like));
}

static SHAPE_RULE(shape) {
    (void)in;
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (params->fill.ne[i] < 1) REFUSE(RP_E_SHAPE, "all dimensions must be positive");
    *out = rp_view_contiguous(RP_F32, params->fill.ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_fill = {.shape = shape, .check = check, .gradient = rp_gradient_constant};
