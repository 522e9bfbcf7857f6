/* Op get_rows_backward: the gradient of get_rows with respect to the table. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *dy = &args->get_rows_backward.dy, *ids = &args->get_rows_backward.ids;
    const int64_t       n = dy->ne[0];
    RP_TRY(rp_check_array(op, args, "dy", dy, RP_F32, n, rp_view_rows(dy)));
    RP_TRY(rp_check_array(op, args, "ids", ids, RP_I32, rp_view_rows(dy), 1));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, n, args->params->get_rows_backward.rows);
}

static SHAPE_RULE(shape) {
    const RpTensorView *dy = in->get_rows_backward.dy, *ids = in->get_rows_backward.ids;
    if (params->get_rows_backward.rows < 1) REFUSE(RP_E_ARG, "the table must have rows");
    if (!rp_shape_is_contiguous(dy) || dy->ne[2] != 1 || dy->ne[3] != 1)
        REFUSE(RP_E_SHAPE, "dy must be a contiguous f32 matrix");
    if (!rp_shape_is_index(ids, dy->ne[1])) REFUSE(RP_E_SHAPE, "the ids must be i32, one per row of dy");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){dy->ne[0], params->get_rows_backward.rows, 1, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_get_rows_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
