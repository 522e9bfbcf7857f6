/* Op get_rows: rows of a table by their numbers, as f32. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->get_rows.w, *ids = &args->get_rows.ids, *y = &args->dst;
    const bool          given = rp_is_present(ids);
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        return rp_refuse(RP_E_DTYPE, op, args, "w must be of a float or weight type");
    if (given && ids->dtype != RP_I32) return rp_refuse(RP_E_DTYPE, op, args, "ids must be i32");
    if (y->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "the result must be f32");
    if (y->ne[0] != w->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of w and of the result must have one length");
    if (y->ne[1] != (given ? ids->ne[0] : w->ne[1]))
        return rp_refuse(RP_E_SHAPE, op, args, "the result must have a row for each %s", given ? "id" : "row of w");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *w = in->get_rows.w, *ids = in->get_rows.ids;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "rows must be of a float or weight type");
    if (w->ne[2] != 1 || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "the table must be a matrix");
    if (!rp_shape_contiguous_rows(w)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (ids != NULL && !rp_shape_is_index(ids, ids->ne[0])) REFUSE(RP_E_SHAPE, "the ids must be an i32 vector");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[0], ids != NULL ? ids->ne[0] : w->ne[1], 1, 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode      *w     = y->from.get_rows.w;
    const float      scale = y->params.get_rows.scale;
    const RpOpParams p     = {
            .get_rows_backward = {.rows = (int32_t)rp_node_ne(w, 1), .scale = scale}
    };
    rp_backward_give(b, w,
                     y->from.get_rows.ids != NULL
                         ? rp_backward_op(b, RP_OP_GET_ROWS_BACKWARD, &p, dy, y->from.get_rows.ids, NULL)
                     : scale != 0.0f ? rp_scale(b->g, dy, scale, 0.0f)
                                     : dy);
    return NULL;
}

static PARTS(parts) { rp_add_part(list, n->params.get_rows.scale != 0.0f, "scale"); }

const OpRules rp_rules_get_rows = {
    .shape = shape, .check = check, .gradient = gradient, .parts = parts, .colour = "#abdda4"};
