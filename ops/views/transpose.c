/* View `transpose`: dimensions 0 and 1 swapped. */
#include "ops/op.h"

static SHAPE_RULE(shape) {
    (void)params;
    const RpOpParams swap = {.permute = {.axis = {1, 0, 2, 3}}};
    return rp_rules_permute.shape(in, &swap, out, why);
}

static GRADIENT_RULE(gradient) {
    rp_backward_give(b, y->from.transpose.x, rp_transpose(b->g, dy));
    return NULL;
}

const OpRules rp_rules_transpose = {.shape = shape, .gradient = gradient};
