/* Op linear: a product of one token with its column, bias, scale, post-norm and residual. */
#include "ops/op.h"

#include "ops/fused/column.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->linear.w;
    RP_TRY(rp_check_column(op, args, w, &args->linear.x, &args->linear.norm, &args->params->linear.column));
    RP_TRY(rp_check_vector(op, args, "bias", &args->linear.bias, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "residual", &args->linear.residual, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "post_norm", &args->linear.post_norm, w->ne[1]));
    return rp_check_result(op, args, RP_F32, w->ne[1], 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView   *w = in->linear.w;
    const RpLinearParams *p = &params->linear;
    RP_TRY(rp_shape_column(w, in->linear.x, in->linear.norm, &p->column, why));
    if (!rp_shape_is_one_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!rp_shape_fits(in->linear.bias, w->ne[1]) || !rp_shape_fits(in->linear.residual, w->ne[1]) ||
        !rp_shape_fits(in->linear.post_norm, w->ne[1]))
        REFUSE(RP_E_SHAPE, "bias, residual and weight of the post-norm must be f32, one per row of the weights");
    if (in->linear.post_norm != NULL && p->post_norm == 0)
        REFUSE(RP_E_ARG, "a weight for the post-norm, but post_norm is 0");
    if (p->post_eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    rp_column_parts(list, &n->params.linear.column);
    rp_add_part(list, true, "product");
    rp_add_part(list, n->from.linear.bias != NULL, "bias");
    rp_add_part(list, n->params.linear.scale != 1.0f, "scale");
    rp_add_part(list, n->params.linear.post_norm != 0, "norm");
    rp_add_part(list, n->from.linear.residual != NULL, "residual");
}

const OpRules rp_rules_linear = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#f4a582"};
