/* Op add: y = a + b, where b repeats. */
#include "ops/op.h"

static GRADIENT_RULE(gradient) {
    TensorNode *r = y->from.add.b;
    rp_backward_give(b, y->from.add.a, dy);
    if (rp_backward_needs(b, r)) rp_backward_give(b, r, rp_backward_sum_like(b, dy, r));
    return NULL;
}

const OpRules rp_rules_add = {
    .shape = rp_shape_binary, .check = rp_check_repeat, .gradient = gradient, .commutes = true};
