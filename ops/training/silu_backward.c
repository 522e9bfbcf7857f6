/* Op silu_backward: the gradient of silu. */
#include "ops/op.h"

const OpRules rp_rules_silu_backward = {
    .shape = rp_shape_gradient, .check = rp_check_gradient, .gradient = rp_gradient_none};
