/* Op gelu: y = x * Phi(x), Phi the normal distribution function. */
#include "ops/op.h"

static CHECK_RULE(check) {
    RP_TRY(rp_check_unary(op, args));
    const RpGeluKind kind = args->params->gelu.kind;
    if (kind != RP_GELU_TANH && kind != RP_GELU_ERF)
        return rp_refuse(RP_E_ARG, op, args, "kind = %d must be one of RpGeluKind", (int)kind);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    const RpOpParams p = {.gelu_backward = y->params.gelu};
    rp_backward_give(b, y->from.gelu.x, rp_backward_op(b, RP_OP_GELU_BACKWARD, &p, dy, y->from.gelu.x, NULL));
    return NULL;
}

const OpRules rp_rules_gelu = {.shape = rp_shape_unary, .check = check, .gradient = gradient, .colour = "#d9f0d3"};
