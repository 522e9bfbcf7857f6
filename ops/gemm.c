/* Op gemm: a product of f32 matrices, each as it is or transposed. */
#include "ops/op.h"

/* Adjacent elements along dimension 0 or 1. */
static bool is_matrix(const RpTensorView *v) {
    return v->dtype == RP_F32 && v->ne[3] == 1 && (v->nb[0] == sizeof(float) || v->nb[1] == sizeof(float)) &&
           (v->nb[0] | v->nb[1] | v->nb[2]) % sizeof(float) == 0;
}

static CHECK_RULE(check) {
    const RpTensorView *a = &args->gemm.a, *b = &args->gemm.b, *c = &args->gemm.c, *y = &args->dst;
    const bool          given = rp_is_present(c);
    if (!is_matrix(a) || !is_matrix(b))
        return rp_refuse(RP_E_DTYPE, op, args, "a and b must be f32 with adjacent rows or columns");
    if ((given && c->dtype != RP_F32) || y->dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "c and the result must be f32");
    if (y->nb[0] != sizeof(float) || (given && c->nb[0] != sizeof(float)))
        return rp_refuse(RP_E_SHAPE, op, args, "rows of c and of the result must be contiguous");
    if (a->ne[0] != b->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "b must have a row for each element of a row of a");
    if (y->ne[0] != b->ne[0] || y->ne[1] != a->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args,
                         "the result must have rows as long as those of b, one for each row of a");
    if (a->ne[2] != b->ne[2] || y->ne[2] != a->ne[2] || y->ne[3] != 1)
        return rp_refuse(RP_E_SHAPE, op, args, "a, b and the result must be of one batch, their dimension 2");
    if (given && !rp_shape_same(c, y)) return rp_refuse(RP_E_SHAPE, op, args, "c must have the shape of the result");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *a = in->gemm.a, *b = in->gemm.b, *c = in->gemm.c;
    if (!is_matrix(a) || !is_matrix(b) || (c != NULL && c->dtype != RP_F32))
        REFUSE(RP_E_DTYPE, "the sources must be f32 matrices, as they are or transposed");
    if (a->ne[0] != b->ne[1] || a->ne[2] != b->ne[2])
        REFUSE(RP_E_SHAPE, "b must have a row for each element of a row of a, and the batch of a");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){b->ne[0], a->ne[1], a->ne[2], 1}, NULL);
    if (c != NULL && !(rp_shape_same(c, out) && rp_shape_contiguous_rows(c)))
        REFUSE(RP_E_SHAPE, "the third source must have the shape of the product, and contiguous rows");
    if (c == NULL && params->gemm.beta != 0.0f) REFUSE(RP_E_ARG, "c must be given where beta is not 0");
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    TensorNode      *l = y->from.gemm.a, *r = y->from.gemm.b, *c = y->from.gemm.c;
    const RpOpParams p = {.gemm = {.alpha = y->params.gemm.alpha}};
    if (rp_backward_needs(b, l))
        rp_backward_give(b, l, rp_backward_op(b, RP_OP_GEMM, &p, dy, rp_transpose(b->g, r), NULL));
    if (rp_backward_needs(b, r))
        rp_backward_give(b, r, rp_backward_op(b, RP_OP_GEMM, &p, rp_transpose(b->g, l), dy, NULL));
    if (rp_backward_needs(b, c)) rp_backward_give(b, c, rp_scale(b->g, dy, y->params.gemm.beta, 0.0f));
    return NULL;
}

const OpRules rp_rules_gemm = {.shape = shape, .check = check, .gradient = gradient};
