/* Op rms_norm: rows divided by their root mean square, times a weight. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->rms_norm.x, *w = &args->rms_norm.w;
    RP_TRY(rp_check_unary(op, args));
    if (rp_is_present(w) && w->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "w must be f32");
    if (rp_is_present(w) && w->ne[0] != x->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "w must be as long as the rows of x");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->rms_norm.x, *w = in->rms_norm.w;
    if (params->rms_norm.eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    if (w != NULL && w->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the weight must be f32");
    if (w != NULL && (w->ne[0] != x->ne[0] || rp_view_rows(w) != 1))
        REFUSE(RP_E_SHAPE, "the weight must be a vector of the row's length");
    return rp_shape_unary(in, params, out, why);
}

static GRADIENT_RULE(gradient) {
    TensorNode *x = rp_backward_contiguous(b, y->from.rms_norm.x), *w = y->from.rms_norm.w, *dw = NULL, *rstd = NULL;
    const RpOpParams p = {.rms_norm_backward = y->params.rms_norm};
    if (rp_backward_needs(b, w)) {
        dw   = rp_backward_buffer_like(b, w);
        rstd = rp_backward_buffer_of_rows(b, x, 1);
    }
    TensorNode *dx = rp_graph_op(b->g, RP_OP_RMS_NORM_BACKWARD, &p, (TensorNode *const[]){dy, x, w, dw, rstd}, 5);
    rp_backward_give(b, y->from.rms_norm.x, dx);
    if (dw != NULL) rp_backward_give(b, w, rp_backward_after(b, dw, dx));
    return NULL;
}

const OpRules rp_rules_rms_norm = {.shape = shape, .check = check, .gradient = gradient, .colour = "#92c5de"};
