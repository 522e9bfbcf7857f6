/* Op scale: y = scale * x + bias. */
#include "ops/op.h"

static GRADIENT_RULE(gradient) {
    rp_backward_give(b, y->from.scale.x, rp_scale(b->g, dy, y->params.scale.scale, 0.0f));
    return NULL;
}

const OpRules rp_rules_scale = {.shape = rp_shape_unary, .check = rp_check_unary, .gradient = gradient};
