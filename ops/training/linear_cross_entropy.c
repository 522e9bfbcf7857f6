/* Op linear_cross_entropy: the loss of an output matrix, whose logits are never held at once. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const LinearSources s = {&args->linear_cross_entropy.x, &args->linear_cross_entropy.w,
                             &args->linear_cross_entropy.targets, &args->linear_cross_entropy.stats,
                             &args->linear_cross_entropy.chunk};
    RP_TRY(rp_check_linear_sources(op, args, &s));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, s.x->ne[1], 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->linear_cross_entropy.x;
    (void)params;
    const LinearSources s = {x, in->linear_cross_entropy.w, in->linear_cross_entropy.targets,
                             in->linear_cross_entropy.stats, in->linear_cross_entropy.chunk};
    RP_TRY(rp_shape_linear_sources(&s, why));
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode *x = y->from.linear_cross_entropy.x, *w = y->from.linear_cross_entropy.w,
               *stats = rp_backward_after(b, y->from.linear_cross_entropy.stats, y->node),
               *chunk = rp_backward_buffer_like(b, y->from.linear_cross_entropy.chunk), *dw = NULL;
    const RpOpParams p = {.linear_cross_entropy_backward = y->params.linear_cross_entropy};
    if (rp_backward_needs(b, w)) dw = rp_backward_buffer_like(b, w);
    TensorNode *dx =
        rp_graph_op(b->g, RP_OP_LINEAR_CROSS_ENTROPY_BACKWARD, &p,
                    (TensorNode *const[]){dy, x, w, y->from.linear_cross_entropy.targets, stats, chunk, dw}, 7);
    rp_backward_give(b, x, dx);
    if (dw != NULL) rp_backward_give(b, w, rp_backward_after(b, dw, dx));
    return NULL;
}

const OpRules rp_rules_linear_cross_entropy = {.shape = shape, .check = check, .gradient = gradient};
