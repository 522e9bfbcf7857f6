/* View `reshape`: the same elements in another shape. */
#include "ops/op.h"

static SHAPE_RULE(shape) {
    const RpTensorView *x    = in->reshape.x;
    int64_t             left = rp_view_elems(x);
    if (!rp_view_is_contiguous(x)) REFUSE(RP_E_SHAPE, "the source must be contiguous");
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int64_t n = params->reshape.ne[i];
        if (n <= 0) REFUSE(RP_E_SHAPE, "dimensions must be positive");
        if (left % n != 0) REFUSE(RP_E_SHAPE, "the result must have as many elements as the source");
        left /= n;
    }
    if (left != 1) REFUSE(RP_E_SHAPE, "the result must have as many elements as the source");
    if (params->reshape.ne[0] % rp_dtype_info(x->dtype)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "rows must be whole blocks");
    if (x->dtype == RP_Q8_ACT && params->reshape.ne[0] != x->ne[0])
        REFUSE(RP_E_SHAPE, "rows of q8_act must keep their length");
    *out = rp_view_contiguous(x->dtype, params->reshape.ne, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    rp_backward_give(b, y->from.reshape.x, rp_backward_like(b, dy, y->from.reshape.x));
    return NULL;
}

const OpRules rp_rules_reshape = {.shape = shape, .gradient = gradient};
