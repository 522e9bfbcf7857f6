/* Op linear_cross_entropy_backward: the gradient of linear_cross_entropy. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->linear_cross_entropy_backward.x, *w = &args->linear_cross_entropy_backward.w,
                       *dw = &args->linear_cross_entropy_backward.dw;
    const LinearSources s  = {x, w, &args->linear_cross_entropy_backward.targets,
                              &args->linear_cross_entropy_backward.stats, &args->linear_cross_entropy_backward.chunk};
    RP_TRY(rp_check_linear_sources(op, args, &s));
    RP_TRY(rp_check_array(op, args, "dy", &args->linear_cross_entropy_backward.dy, RP_F32, x->ne[1], 1));
    if (rp_is_present(dw)) RP_TRY(rp_check_array(op, args, "dw", dw, RP_F32, w->ne[0], w->ne[1]));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, x->ne[0], x->ne[1]);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->linear_cross_entropy_backward.x, *w = in->linear_cross_entropy_backward.w,
                       *dw = in->linear_cross_entropy_backward.dw;
    (void)params;
    const LinearSources s = {x, w, in->linear_cross_entropy_backward.targets, in->linear_cross_entropy_backward.stats,
                             in->linear_cross_entropy_backward.chunk};
    RP_TRY(rp_shape_linear_sources(&s, why));
    if (!rp_shape_is_vector(in->linear_cross_entropy_backward.dy, x->ne[1]))
        REFUSE(RP_E_SHAPE, "dy must be f32, one per row of x");
    if (dw != NULL && (dw->dtype != RP_F32 || !rp_shape_same(dw, w) || !rp_view_is_contiguous(dw)))
        REFUSE(RP_E_SHAPE, "dw must be contiguous f32 of the shape of w");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_linear_cross_entropy_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
