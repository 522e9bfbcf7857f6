/* Op cross_entropy: the loss of each row of logits. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->cross_entropy.x, *log_probs = &args->cross_entropy.log_probs;
    const int64_t       n = x->ne[0], rows = rp_view_rows(x);
    if (x->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "x must be f32");
    RP_TRY(rp_check_array(op, args, "targets", &args->cross_entropy.targets, RP_I32, rows, 1));
    if (rp_is_present(log_probs)) RP_TRY(rp_check_array(op, args, "log_probs", log_probs, RP_F32, n, rows));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, rows, 1);
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *x = in->cross_entropy.x, *log_probs = in->cross_entropy.log_probs;
    RP_TRY(rp_shape_targets(x, in->cross_entropy.targets, why));
    if (log_probs != NULL &&
        (log_probs->dtype != RP_F32 || !rp_shape_same(log_probs, x) || !rp_view_is_contiguous(log_probs)))
        REFUSE(RP_E_SHAPE, "log_probs must be contiguous f32 of the shape of the logits");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode *x = y->from.cross_entropy.x;
    rp_backward_give(b, x, rp_backward_op(b, RP_OP_CROSS_ENTROPY_BACKWARD, NULL, x, y->from.cross_entropy.targets, dy));
    return NULL;
}

const OpRules rp_rules_cross_entropy = {.shape = shape, .check = check, .gradient = gradient};
