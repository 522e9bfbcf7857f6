/* Op layer_norm: rows less their mean, divided by their standard deviation, times a weight, plus a bias. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->layer_norm.x, *w = &args->layer_norm.w, *b = &args->layer_norm.b;
    RP_TRY(rp_check_unary(op, args));
    if ((rp_is_present(w) && w->dtype != RP_F32) || (rp_is_present(b) && b->dtype != RP_F32))
        return rp_refuse(RP_E_DTYPE, op, args, "w and b must be f32");
    if ((rp_is_present(w) && w->ne[0] != x->ne[0]) || (rp_is_present(b) && b->ne[0] != x->ne[0]))
        return rp_refuse(RP_E_SHAPE, op, args, "w and b must be as long as the rows of x");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->layer_norm.x, *w = in->layer_norm.w, *b = in->layer_norm.b;
    if (params->layer_norm.eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    if ((w != NULL && !rp_shape_is_vector(w, x->ne[0])) || (b != NULL && !rp_shape_is_vector(b, x->ne[0])))
        REFUSE(RP_E_SHAPE, "weight and bias must be f32 vectors of the row's length");
    return rp_shape_unary(in, params, out, why);
}

const OpRules rp_rules_layer_norm = {.shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#92c5de"};
