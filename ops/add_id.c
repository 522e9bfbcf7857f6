/* Op add_id: the bias of the chosen experts. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->add_id.x, *b = &args->add_id.b;
    RP_TRY(rp_check_unary(op, args));
    if (b->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "b must be f32");
    if (b->ne[0] != x->ne[0]) return rp_refuse(RP_E_SHAPE, op, args, "rows of x and b must have one length");
    return rp_check_ids(op, args, &args->add_id.ids, x->ne[1], x->ne[2]);
}

static SHAPE_RULE(shape) {
    const RpTensorView *x = in->add_id.x, *b = in->add_id.b, *ids = in->add_id.ids;
    if (b->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (b->ne[0] != x->ne[0] || b->ne[2] != 1 || b->ne[3] != 1 || !rp_shape_contiguous_rows(b))
        REFUSE(RP_E_SHAPE, "the second source must be a matrix with rows as long as those of the first");
    if (x->ne[3] != 1 || !rp_shape_is_choice(ids, x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be i32, one for each row of the first source");
    return rp_shape_unary(in, params, out, why);
}

static GRADIENT_RULE(gradient) {
    TensorNode      *bias = y->from.add_id.b;
    const int64_t    n = y->view.ne[0], t = rp_view_rows(&y->view);
    const RpOpParams p = {.get_rows_backward = {.rows = (int32_t)rp_node_ne(bias, 1)}};
    rp_backward_give(b, y->from.add_id.x, dy);
    if (rp_backward_needs(b, bias))
        rp_backward_give(b, bias,
                         rp_backward_op(b, RP_OP_GET_ROWS_BACKWARD, &p, rp_backward_shaped(b, dy, n, t, 1, 1),
                                        rp_backward_shaped(b, y->from.add_id.ids, t, 1, 1, 1), NULL));
    return NULL;
}

const OpRules rp_rules_add_id = {.shape = shape, .check = check, .gradient = gradient};
