/* Op relu_sqr: y = max(x, 0)^2. */
#include "ops/op.h"

const OpRules rp_rules_relu_sqr = {.shape = rp_shape_unary, .check = rp_check_unary, .gradient = rp_gradient_none};
