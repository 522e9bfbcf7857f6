/* Op linear: a product of one token with its column, and the element-wise ops and norms behind it. */
#include "ops/op.h"

#include "ops/fused/column.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->linear.w;
    RP_TRY(rp_check_column(op, args, w, &args->linear.x, &args->linear.norm, &args->params->linear.column));
    RP_TRY(rp_check_vector(op, args, "bias", &args->linear.bias, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "residual", &args->linear.residual, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "post_norm", &args->linear.post_norm, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "factor", &args->linear.factor, args->linear.factor.ne[0] == 1 ? 1 : w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "sum_norm", &args->linear.sum_norm, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "sum_residual", &args->linear.sum_residual, w->ne[1]));
    return rp_check_result(op, args, RP_F32, w->ne[1], 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView   *w = in->linear.w, *factor = in->linear.factor;
    const RpLinearParams *p = &params->linear;
    RP_TRY(rp_shape_column(w, in->linear.x, in->linear.norm, &p->column, why));
    if (!rp_shape_is_one_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!rp_shape_fits(in->linear.bias, w->ne[1]) || !rp_shape_fits(in->linear.residual, w->ne[1]) ||
        !rp_shape_fits(in->linear.post_norm, w->ne[1]))
        REFUSE(RP_E_SHAPE, "bias, residual and weight of the post-norm must be f32, one per row of the weights");
    if (!rp_shape_fits(in->linear.sum_norm, w->ne[1]) || !rp_shape_fits(in->linear.sum_residual, w->ne[1]))
        REFUSE(RP_E_SHAPE, "weight of the norm of the sum and second residual must be f32, one per row of the weights");
    if (!rp_shape_fits(factor, w->ne[1]) && !rp_shape_fits(factor, 1))
        REFUSE(RP_E_SHAPE, "the factor must be f32, one per row of the weights or one for all");
    if ((unsigned)p->act > RP_LINEAR_ACT_RELU_SQR)
        REFUSE(RP_E_ARG, "act must be from RP_LINEAR_ACT_NONE, 0, to RP_LINEAR_ACT_RELU_SQR, 4");
    if (in->linear.post_norm != NULL && p->post_norm == 0)
        REFUSE(RP_E_ARG, "post_norm must not be 0 where a weight for the post-norm is given");
    if (in->linear.sum_norm != NULL && p->sum_norm == 0)
        REFUSE(RP_E_ARG, "sum_norm must not be 0 where a weight for the norm of the sum is given");
    if (p->sum_norm != 0 && p->post_norm == 0) REFUSE(RP_E_ARG, "post_norm must not be 0 where sum_norm is not");
    if (p->post_eps < 0.0f || p->sum_eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    static const char *const act[] = {"", "silu", "gelu", "gelu", "relu squared"};
    const RpLinearParams    *p     = &n->params.linear;
    rp_column_parts(list, &p->column);
    rp_add_part(list, true, "product");
    rp_add_part(list, n->from.linear.bias != NULL, "bias");
    rp_add_part(list, p->scale != 1.0f, "scale");
    rp_add_part(list, p->act != RP_LINEAR_ACT_NONE, act[p->act]);
    rp_add_part(list, p->post_norm != 0, "norm");
    rp_add_part(list, n->from.linear.residual != NULL, "residual");
    rp_add_part(list, p->sum_norm != 0, "norm of the sum");
    rp_add_part(list, n->from.linear.sum_residual != NULL, "second residual");
    rp_add_part(list, n->from.linear.factor != NULL, "factor");
}

const OpRules rp_rules_linear = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#f4a582"};
