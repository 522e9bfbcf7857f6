/* Op experts_down: the second products of the chosen experts of one token, and their weighted sum. */
#include "ops/op.h"

#include "ops/fused/column.h"

/* The matrix of a shared expert, which is like that of each other expert. */
static const char *shared_problem(const RpTensorView *w, const RpTensorView *shared, bool biased) {
    if (biased) return "bias must be absent where there is a shared expert";
    if (shared->dtype != w->dtype) return "a shared expert must have the type of the others";
    if (shared->ne[0] != w->ne[0] || shared->ne[1] != w->ne[1] || !rp_shape_is_one_matrix(shared) ||
        shared->nb[1] != w->nb[1])
        return "a shared expert must have the shape of the others";
    return NULL;
}

static CHECK_RULE(check) {
    const RpTensorView *w = &args->experts_down.w, *x = &args->experts_down.x;
    RP_TRY(rp_check_product(op, args, w, x));
    if (w->ne[0] != x->ne[0]) return rp_refuse(RP_E_SHAPE, op, args, "rows of w and x must have one length");
    if (x->ne[2] != 1 || x->ne[3] != 1)
        return rp_refuse(RP_E_SHAPE, op, args, "x must be a matrix, a row for each chosen expert");
    const RpTensorView *shared = &args->experts_down.shared;
    const char *why = rp_is_present(shared) ? shared_problem(w, shared, rp_is_present(&args->experts_down.bias)) : NULL;
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    if (rp_is_present(&args->experts_down.open) && !rp_is_present(shared))
        return rp_refuse(RP_E_SHAPE, op, args, "shared must be given where open is");
    RP_TRY(rp_check_vector(op, args, "open", &args->experts_down.open, 1));
    const int64_t k = x->ne[1] - (rp_is_present(shared) ? 1 : 0);
    RP_TRY(rp_check_ids(op, args, &args->experts_down.ids, k, 1));
    RP_TRY(rp_check_vector(op, args, "weights", &args->experts_down.weights, k));
    RP_TRY(rp_check_vector(op, args, "bias", &args->experts_down.bias, w->ne[1] * w->ne[2]));
    RP_TRY(rp_check_vector(op, args, "residual", &args->experts_down.residual, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "scales", &args->experts_down.scales, w->ne[2]));
    RP_TRY(rp_check_vector(op, args, "post_norm", &args->experts_down.post_norm, w->ne[1]));
    if (args->params->experts_down.post_norm != 0 && rp_is_present(shared))
        return rp_refuse(RP_E_ARG, op, args, "post_norm must be 0 where there is a shared expert");
    return rp_check_result(op, args, RP_F32, w->ne[1], 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView *w = in->experts_down.w, *x = in->experts_down.x, *ids = in->experts_down.ids,
                       *weights = in->experts_down.weights;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "weights must be of a weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "x must be f32, or q8_act for quantised weights");
    if (!rp_shape_contiguous_rows(w) || !rp_view_is_contiguous(x)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (w->ne[0] != x->ne[0] || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "rows of the weights and x must have one length");
    const RpTensorView *shared = in->experts_down.shared;
    const int64_t       k      = x->ne[1] - (shared != NULL ? 1 : 0);
    if (x->ne[2] != 1 || x->ne[3] != 1 || !rp_shape_is_choice(ids, k, 1) || !rp_shape_is_vector(weights, k))
        REFUSE(RP_E_SHAPE, "there must be one id and one weight for each row of x, of one token");
    *why = shared != NULL ? shared_problem(w, shared, in->experts_down.bias != NULL) : NULL;
    if (*why != NULL) return RP_E_SHAPE;
    if (in->experts_down.open != NULL && (shared == NULL || !rp_shape_is_vector(in->experts_down.open, 1)))
        REFUSE(RP_E_SHAPE, "open must be one f32, of a shared expert");
    if (!rp_shape_fits_experts(in->experts_down.bias, w))
        REFUSE(RP_E_SHAPE, "the bias must be f32, one per row of the weights");
    if (!rp_shape_fits(in->experts_down.residual, w->ne[1]))
        REFUSE(RP_E_SHAPE, "the residual must be f32, one per row of the weights");
    if (!rp_shape_fits(in->experts_down.scales, w->ne[2])) REFUSE(RP_E_SHAPE, "the scales must be f32, one per expert");
    if (!rp_shape_fits(in->experts_down.post_norm, w->ne[1]))
        REFUSE(RP_E_SHAPE, "the weight of the post-norm must be f32, one per row of the weights");
    const RpExpertsDownParams *p = &params->experts_down;
    if (in->experts_down.post_norm != NULL && p->post_norm == 0)
        REFUSE(RP_E_ARG, "post_norm must not be 0 where a weight for the post-norm is given");
    if (p->post_norm != 0 && shared != NULL) REFUSE(RP_E_ARG, "post_norm must be 0 where there is a shared expert");
    if (p->post_eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    rp_add_part(list, true, "products");
    rp_add_part(list, n->from.experts_down.bias != NULL, "bias");
    rp_add_part(list, n->from.experts_down.scales != NULL, "scales of experts");
    rp_add_part(list, true, "sum");
    rp_add_part(list, n->params.experts_down.scale != 1.0f, "scale");
    rp_add_part(list, n->params.experts_down.post_norm != 0, "norm");
    rp_add_part(list, n->from.experts_down.shared != NULL, "shared expert");
    rp_add_part(list, n->from.experts_down.open != NULL, "its gate");
    rp_add_part(list, n->from.experts_down.residual != NULL, "residual");
}

const OpRules rp_rules_experts_down = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#fbb4ae"};
