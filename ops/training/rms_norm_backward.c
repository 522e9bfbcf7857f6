/* Op rms_norm_backward: the gradients of rms_norm, dx and dw. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->rms_norm_backward.x, *w = &args->rms_norm_backward.w,
                       *dw = &args->rms_norm_backward.dw, *rstd = &args->rms_norm_backward.rstd;
    const int64_t n = args->dst.ne[0], rows = rp_view_rows(&args->dst);
    RP_TRY(rp_check_array(op, args, "result", &args->dst, RP_F32, n, rows));
    RP_TRY(rp_check_array(op, args, "dy", &args->rms_norm_backward.dy, RP_F32, n, rows));
    RP_TRY(rp_check_array(op, args, "x", x, RP_F32, n, rows));
    if (rp_is_present(w)) RP_TRY(rp_check_array(op, args, "w", w, RP_F32, n, 1));
    if (rp_is_present(rstd)) RP_TRY(rp_check_array(op, args, "rstd", rstd, RP_F32, rows, 1));
    if (!rp_is_present(dw)) return RP_OK;
    RP_TRY(rp_check_array(op, args, "dw", dw, RP_F32, n, 1));
    return rp_is_present(rstd) ? RP_OK : rp_refuse(RP_E_SHAPE, op, args, "rstd must be given where dw is");
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->rms_norm_backward.x, *w = in->rms_norm_backward.w, *dw = in->rms_norm_backward.dw,
                       *rstd = in->rms_norm_backward.rstd;
    if (params->rms_norm_backward.eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    if (!rp_shape_is_contiguous(x) || !rp_shape_is_contiguous(in->rms_norm_backward.dy) ||
        !rp_shape_same(x, in->rms_norm_backward.dy))
        REFUSE(RP_E_SHAPE, "dy and x must be contiguous f32 of one shape");
    if ((w != NULL && !rp_shape_is_vector(w, x->ne[0])) || (dw != NULL && !rp_shape_is_vector(dw, x->ne[0])))
        REFUSE(RP_E_SHAPE, "weight and dw must be vectors of the row's length");
    if (rstd != NULL && !rp_shape_is_vector(rstd, rp_view_rows(x)))
        REFUSE(RP_E_SHAPE, "rstd must be f32, one for each row");
    if (dw != NULL && rstd == NULL) REFUSE(RP_E_ARG, "rstd must be given where dw is");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_rms_norm_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
