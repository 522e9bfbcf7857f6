/* Op xielu: y = positive * x^2 + beta * x above 0, else negative * (exp(min(x, eps)) - 1 - x) + beta * x. */
#include "ops/op.h"

static CHECK_RULE(check) {
    RP_TRY(rp_check_unary(op, args));
    if (args->params->xielu.eps < 0.0f) return RP_OK;
    return rp_refuse(RP_E_ARG, op, args, "eps = %g must be below 0", (double)args->params->xielu.eps);
}

const OpRules rp_rules_xielu = {.shape = rp_shape_unary, .check = check, .gradient = rp_gradient_none};
