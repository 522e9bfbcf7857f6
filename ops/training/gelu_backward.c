/* Op gelu_backward: the gradient of gelu. */
#include "ops/op.h"

static CHECK_RULE(check) {
    RP_TRY(rp_check_gradient(op, args));
    const RpGeluKind kind = args->params->gelu_backward.kind;
    if (kind == RP_GELU_TANH || kind == RP_GELU_ERF) return RP_OK;
    return rp_refuse(RP_E_ARG, op, args, "kind = %d must be one of RpGeluKind", (int)kind);
}

const OpRules rp_rules_gelu_backward = {.shape = rp_shape_gradient, .check = check, .gradient = rp_gradient_none};
