/* Op soft_max: softmax of rows, with a mask, positions, a window and sinks. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->soft_max.x, *mask = &args->soft_max.mask, *pos = &args->soft_max.pos,
                       *sinks = &args->soft_max.sinks;
    RP_TRY(rp_check_unary(op, args));
    if (rp_is_present(mask) && (mask->ne[0] != x->ne[0] || mask->ne[1] != x->ne[1]))
        return rp_refuse(RP_E_SHAPE, op, args, "dimensions 0 and 1 of mask must be those of x");
    if (rp_is_present(pos) && pos->ne[0] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "pos must have a position for each row of x, its dimension 1");
    if (rp_is_present(sinks) && sinks->ne[0] != x->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "sinks must have one for each head of x, its dimension 2");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->soft_max.x, *mask = in->soft_max.mask, *pos = in->soft_max.pos,
                       *sinks = in->soft_max.sinks;
    if (sinks != NULL && !rp_shape_is_vector(sinks, x->ne[2])) REFUSE(RP_E_SHAPE, "sinks must be f32, one per head");
    if (params->soft_max.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (params->soft_max.window > 0 && pos == NULL) REFUSE(RP_E_ARG, "positions must be given where window is not 0");
    if (mask != NULL && mask->dtype != RP_F32 && mask->dtype != RP_F16)
        REFUSE(RP_E_DTYPE, "the mask must be f32 or f16");
    if (mask != NULL && (mask->ne[0] != x->ne[0] || mask->ne[1] != x->ne[1] || mask->ne[2] != 1 || mask->ne[3] != 1))
        REFUSE(RP_E_SHAPE, "the mask must be a matrix of the source's first two dimensions");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1])) REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    return rp_shape_unary(in, params, out, why);
}

/* The sink of a head takes part of the softmax of each row, 1 - sum_i y[i,t,h], and its result is not used:
 *
 *     dsinks[h] = -sum_t (1 - sum_i y[i,t,h]) * sum_i dy[i,t,h] * y[i,t,h] */
static TensorNode *of_sinks(Backward *b, const OpNode *y, TensorNode *dy) {
    const int64_t t = y->view.ne[1], h = y->view.ne[2], rows[] = {1, t, h, y->view.ne[3]};
    TensorNode   *part = rp_backward_sum_to(b, rp_backward_contiguous(b, y->node), rows);
    TensorNode   *dot  = rp_backward_sum_to(b, rp_mul(b->g, dy, y->node), rows);
    TensorNode   *all  = rp_mul(b->g, rp_scale(b->g, part, 1.0f, -1.0f), dot);
    return rp_backward_shaped(b, rp_backward_sum_to(b, all, (int64_t[]){1, 1, h, 1}), h, 1, 1, 1);
}

static GRADIENT_RULE(gradient) {
    const RpOpParams p     = {.soft_max_backward = {.scale = y->params.soft_max.scale}};
    TensorNode      *sinks = y->from.soft_max.sinks;
    if (y->from.soft_max.pos != NULL) return "a softmax with positions has no gradient; use a mask";
    if (rp_backward_needs(b, y->from.soft_max.mask)) return "the mask has no gradient";
    rp_backward_give(b, y->from.soft_max.x, rp_backward_op(b, RP_OP_SOFT_MAX_BACKWARD, &p, dy, y->node, NULL));
    if (rp_backward_needs(b, sinks)) rp_backward_give(b, sinks, of_sinks(b, y, dy));
    return NULL;
}

const OpRules rp_rules_soft_max = {.shape = shape, .check = check, .gradient = gradient, .colour = "#d6604d"};
