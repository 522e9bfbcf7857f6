/* Op silu: y = x / (1 + exp(-x)). */
#include "ops/op.h"

static GRADIENT_RULE(gradient) {
    rp_backward_give(b, y->from.silu.x, rp_backward_op(b, RP_OP_SILU_BACKWARD, NULL, dy, y->from.silu.x, NULL));
    return NULL;
}

const OpRules rp_rules_silu = {
    .shape = rp_shape_unary, .check = rp_check_unary, .gradient = gradient, .colour = "#d9f0d3"};
