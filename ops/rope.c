/* Op rope: rotary position embedding. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->rope.x, *pos = &args->rope.pos;
    const RpRopeParams *p = &args->params->rope;
    RP_TRY(rp_check_unary(op, args));
    if (p->n_dims < 2 || p->n_dims > x->ne[0] || p->n_dims > RP_ROPE_MAX_DIMS || p->n_dims % 2 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "n_dims = %d must be even, from 2 to the length of a row and to %d",
                         p->n_dims, RP_ROPE_MAX_DIMS);
    if (pos->ne[0] != x->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "pos must have a position for each token of x, its dimension 2");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->rope.x, *pos = in->rope.pos, *factors = in->rope.factors;
    const RpRopeParams *p = &params->rope;
    if (p->n_dims <= 0 || p->n_dims % 2 != 0 || p->n_dims > x->ne[0])
        REFUSE(RP_E_SHAPE, "n_dims must be even, positive and at most the row's length");
    if (p->mode != RP_ROPE_NORM && p->mode != RP_ROPE_NEOX)
        REFUSE(RP_E_ARG, "mode must be RP_ROPE_NORM, 0, or RP_ROPE_NEOX, 1");
    if (!(p->freq_base > 0.0f) && !(p->freq_base == 0.0f && factors != NULL))
        REFUSE(RP_E_ARG, "freq_base must be positive, or 0 with frequencies as factors");
    if (x->ne[3] != 1 || !rp_shape_is_index(pos, x->ne[2])) REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    if (factors != NULL && (factors->dtype != RP_F32 || factors->ne[0] != p->n_dims / 2 || rp_view_rows(factors) != 1))
        REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    return rp_shape_unary(in, params, out, why);
}

static GRADIENT_RULE(gradient) {
    RpRopeParams p = y->params.rope;
    if (rp_backward_needs(b, y->from.rope.factors)) return "frequency factors have no gradient";
    p.freq_scale = -p.freq_scale;
    rp_backward_give(b, y->from.rope.x, rp_rope(b->g, dy, y->from.rope.pos, y->from.rope.factors, &p));
    return NULL;
}

const OpRules rp_rules_rope = {.shape = shape, .check = check, .gradient = gradient, .colour = "#c2a5cf"};
