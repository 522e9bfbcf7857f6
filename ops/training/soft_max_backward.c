/* Op soft_max_backward: the gradient of soft_max, from its result. */
#include "ops/op.h"

const OpRules rp_rules_soft_max_backward = {
    .shape = rp_shape_gradient, .check = rp_check_gradient, .gradient = rp_gradient_none};
