/* Op combine: the weighted sum of the results of the chosen experts. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->combine.x, *w = &args->combine.weights, *y = &args->dst;
    if (x->dtype != RP_F32 || w->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "x and weights must be f32");
    if (y->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "the result must be f32");
    if (x->ne[0] != y->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of x and of the result must have one length");
    if (x->ne[2] != y->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "the result must have a row for each token of x, its dimension 2");
    if (w->ne[0] != x->ne[1] || w->ne[1] != x->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "weights must have one for each row of x");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *x = in->combine.x, *w = in->combine.weights;
    if (x->dtype != RP_F32 || w->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (!rp_shape_contiguous_rows(x) || !rp_shape_contiguous_rows(w)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (x->ne[3] != 1 || w->ne[0] != x->ne[1] || w->ne[1] != x->ne[2] || w->ne[2] != 1 || w->ne[3] != 1)
        REFUSE(RP_E_SHAPE, "the second source must hold one weight for each row of the first");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[0], x->ne[2], 1, 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode *w = rp_backward_contiguous(b, y->from.combine.weights), *dw = rp_backward_buffer_like(b, w);
    TensorNode *dx = rp_graph_op(b->g, RP_OP_COMBINE_BACKWARD, NULL,
                                 (TensorNode *const[]){dy, rp_backward_contiguous(b, y->from.combine.x), w, dw}, 4);
    rp_backward_give(b, y->from.combine.x, dx);
    rp_backward_give(b, y->from.combine.weights, rp_backward_after(b, dw, dx));
    return NULL;
}

const OpRules rp_rules_combine = {.shape = shape, .check = check, .gradient = gradient, .colour = "#fbb4ae"};
