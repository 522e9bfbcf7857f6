/* Op repeat_backward: sums over what mul and add repeat. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *dy = &args->repeat_backward.dy, *y = &args->dst;
    bool                divides = true;
    for (int i = 0; i < RP_MAX_DIMS; i++) divides = divides && y->ne[i] > 0 && dy->ne[i] % y->ne[i] == 0;
    if (!divides) return rp_refuse(RP_E_SHAPE, op, args, "dimensions of the result must divide those of dy");
    if (dy->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "dy and the result must be f32");
    return dy->nb[0] == sizeof(float) ? RP_OK : rp_refuse(RP_E_SHAPE, op, args, "rows of dy must be contiguous");
}

static SHAPE_RULE(shape) {
    const RpTensorView *dy = in->repeat_backward.dy;
    const int64_t      *ne = params->repeat_backward.ne;
    if (!rp_shape_is_rows(dy)) REFUSE(RP_E_DTYPE, "the source must be f32 with contiguous rows");
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (ne[i] < 1 || dy->ne[i] % ne[i] != 0)
            REFUSE(RP_E_SHAPE, "the dimensions of the result must divide those of the source");
    *out = rp_view_contiguous(RP_F32, ne, NULL);
    return RP_OK;
}

/* The gradient of a sum is repeated: dy plus zeros of the shape of the source. */
static GRADIENT_RULE(gradient) {
    TensorNode *x = y->from.repeat_backward.dy;
    rp_backward_give(b, x, rp_add(b->g, rp_backward_filled(b, x, 0.0f), dy));
    return NULL;
}

const OpRules rp_rules_repeat_backward = {.shape = shape, .check = check, .gradient = gradient};
