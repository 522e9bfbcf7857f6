/* Op mul: y = a * b, where b repeats. */
#include "ops/op.h"

static GRADIENT_RULE(gradient) {
    TensorNode *l = y->from.mul.a, *r = y->from.mul.b;
    if (rp_backward_needs(b, l)) rp_backward_give(b, l, rp_mul(b->g, dy, r));
    if (rp_backward_needs(b, r)) rp_backward_give(b, r, rp_backward_sum_like(b, rp_mul(b->g, dy, l), r));
    return NULL;
}

const OpRules rp_rules_mul = {
    .shape = rp_shape_binary, .check = rp_check_repeat, .gradient = gradient, .commutes = true};
