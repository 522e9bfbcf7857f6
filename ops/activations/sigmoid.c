/* Op sigmoid: y = 1 / (1 + exp(-x)). */
#include "ops/op.h"

/* dx = dy y (1 - y) */
static GRADIENT_RULE(gradient) {
    TensorNode *s = y->node;
    rp_backward_give(b, y->from.sigmoid.x, rp_mul(b->g, dy, rp_mul(b->g, s, rp_scale(b->g, s, -1.0f, 1.0f))));
    return NULL;
}

const OpRules rp_rules_sigmoid = {
    .shape = rp_shape_unary, .check = rp_check_unary, .gradient = gradient, .colour = "#d9f0d3"};
