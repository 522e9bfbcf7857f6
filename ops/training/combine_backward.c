/* Op combine_backward: the gradients of combine, dx and dweights. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->combine_backward.x;
    const int64_t       n = x->ne[0], k = x->ne[1], t = x->ne[2];
    RP_TRY(rp_check_array(op, args, "x", x, RP_F32, n, k * t));
    RP_TRY(rp_check_array(op, args, "result", &args->dst, RP_F32, n, k * t));
    RP_TRY(rp_check_array(op, args, "dy", &args->combine_backward.dy, RP_F32, n, t));
    RP_TRY(rp_check_array(op, args, "weights", &args->combine_backward.weights, RP_F32, k, t));
    return rp_check_array(op, args, "dweights", &args->combine_backward.dweights, RP_F32, k, t);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->combine_backward.x, *dy = in->combine_backward.dy,
                       *of_w[] = {in->combine_backward.weights, in->combine_backward.dweights};
    (void)params;
    if (!rp_shape_is_contiguous(x) || !rp_shape_is_contiguous(dy) || x->ne[3] != 1 || dy->ne[0] != x->ne[0] ||
        dy->ne[1] != x->ne[2] || rp_view_rows(dy) != dy->ne[1])
        REFUSE(RP_E_SHAPE, "x [n,k,t] and dy [n,t] must be contiguous f32");
    for (int i = 0; i < 2; i++)
        if (!rp_shape_is_contiguous(of_w[i]) || of_w[i]->ne[0] != x->ne[1] || rp_view_rows(of_w[i]) != x->ne[2])
            REFUSE(RP_E_SHAPE, "weights and dweights must be contiguous f32 [k,t]");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_combine_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
