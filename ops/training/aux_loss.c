/* Op aux_loss: the balance loss of the experts of a layer. */
#include "ops/op.h"

#include "ops/training/training.h"

static CHECK_RULE(check) {
    const RpTensorView *probs = &args->aux_loss.probs;
    RP_TRY(rp_check_array(op, args, "probs", probs, RP_F32, probs->ne[0], rp_view_rows(probs)));
    RP_TRY(rp_check_array(op, args, "load", &args->aux_loss.load, RP_F32, probs->ne[0], 1));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, 1, 1);
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *probs = in->aux_loss.probs;
    if (!rp_shape_is_matrix(probs) || !rp_view_is_contiguous(probs))
        REFUSE(RP_E_SHAPE, "the probabilities must be a contiguous f32 matrix");
    if (!rp_shape_is_vector(in->aux_loss.load, probs->ne[0]))
        REFUSE(RP_E_SHAPE, "the load must be f32, one per expert");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){1, 1, 1, 1}, NULL);
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode      *probs = y->from.aux_loss.probs;
    const RpOpParams p     = {.aux_loss_backward = {.tokens = (int32_t)rp_node_ne(probs, 1)}};
    if (rp_backward_needs(b, y->from.aux_loss.load)) return "the load has no gradient";
    rp_backward_give(b, probs, rp_backward_op(b, RP_OP_AUX_LOSS_BACKWARD, &p, y->from.aux_loss.load, dy, NULL));
    return NULL;
}

const OpRules rp_rules_aux_loss = {.shape = shape, .check = check, .gradient = gradient};
