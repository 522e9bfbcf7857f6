/* Op mul_mat: a product of weights and activations, [k,m] x [k,t] -> [m,t]; a row of weights is contiguous along k. */
#include "ops/op.h"

#include "base/types/custom.h"

static CHECK_RULE(check) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x, *y = &args->dst;
    RP_TRY(rp_check_product(op, args, w, x));
    if (w->ne[0] != x->ne[0]) return rp_refuse(RP_E_SHAPE, op, args, "rows of w and x must have one length");
    if (w->ne[1] != y->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of the result must have an element for each row of w");
    if (x->ne[1] != y->ne[1]) return rp_refuse(RP_E_SHAPE, op, args, "the result must have a row for each row of x");
    if (x->ne[2] % w->ne[2] != 0 || x->ne[3] % w->ne[3] != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "dimensions 2 and 3 of w must divide those of x");
    if (rp_is_present(&args->mul_mat.pos) && rp_dtype_is_custom(w->dtype))
        return rp_refuse(RP_E_DTYPE, op, args, "w must not be of a registered type where the product has a bound");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *w = in->mul_mat.w, *x = in->mul_mat.x, *pos = in->mul_mat.pos;
    const bool          transposed = !rp_shape_contiguous_rows(w); /* the values of unfused attention */
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        REFUSE(RP_E_DTYPE, "the first source must be of a float or weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "the second source must be f32, or q8_act for quantised weights");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "rows of the weights and x must have one length");
    if (x->ne[2] % w->ne[2] != 0 || x->ne[3] % w->ne[3] != 0)
        REFUSE(RP_E_SHAPE, "dimensions 2 and 3 of the first must divide those of the second");
    if (!rp_shape_contiguous_rows(x)) REFUSE(RP_E_SHAPE, "the rows of the second source must be contiguous");
    if (transposed && (!rp_dtype_is_float(w->dtype) || w->nb[1] != (size_t)rp_dtype_info(w->dtype)->block_bytes))
        REFUSE(RP_E_SHAPE, "the first source must have contiguous rows, or be a transposed float matrix");
    if ((pos != NULL) != (params->mul_mat.bound != RP_BOUND_NONE))
        REFUSE(RP_E_ARG, "a bound and positions must be given together");
    if (pos != NULL && rp_dtype_is_custom(w->dtype))
        REFUSE(RP_E_DTYPE, "the weights must not be of a registered type where the product has a bound");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1])) REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], x->ne[1], x->ne[2], x->ne[3]}, NULL);
    return RP_OK;
}

static TensorNode *product(Backward *b, TensorNode *a, TensorNode *c) {
    const RpOpParams p = {.gemm = {.alpha = 1.0f}};
    return rp_backward_op(b, RP_OP_GEMM, &p, a, c, NULL);
}

/* dw[k,m,h_w,b_w] = sum over t and repetitions of x[k,t,h,b] dy[m,t,h,b]; h = g h_w, b = g' b_w:
 *
 *     all [k,m,h*b] -> [k*m,g,h_w,b] -> [k*m,1,h_w,b] -> [k*m*h_w,g',b_w] -> [k*m*h_w,1,b_w] */
static TensorNode *outer_sums(Backward *b, const TensorNode *w, TensorNode *x, TensorNode *dy) {
    const RpTensorView v = rp_node_view(x);
    const int64_t      k = v.ne[0], m = rp_node_ne(dy, 0), t = v.ne[1], h = v.ne[2], n = v.ne[3];
    const int64_t      h_w = rp_node_ne(w, 2), b_w = rp_node_ne(w, 3);
    const bool         one     = h_w == 1 && b_w == 1;
    const int64_t      columns = one ? t * h * n : t, outer = one ? 1 : h * n;
    x              = rp_backward_shaped(b, rp_backward_contiguous(b, x), k, columns, outer, 1);
    dy             = rp_backward_shaped(b, dy, m, columns, outer, 1);
    TensorNode *dw = product(b, rp_transpose(b->g, dy), x);
    if (one) return dw;
    dw = rp_backward_shaped(b, dw, k * m, h / h_w, h_w, n);
    dw = rp_backward_sum_to(b, dw, (int64_t[]){k * m, 1, h_w, n});
    dw = rp_backward_shaped(b, dw, k * m * h_w, n / b_w, b_w, 1);
    dw = rp_backward_sum_to(b, dw, (int64_t[]){k * m * h_w, 1, b_w, 1});
    return rp_backward_like(b, dw, w);
}

static GRADIENT_RULE(gradient) {
    TensorNode *w = y->from.mul_mat.w, *x = y->from.mul_mat.x;
    if (y->from.mul_mat.pos != NULL) return "a product that positions limit has no gradient";
    if (rp_backward_needs(b, w)) rp_backward_give(b, w, outer_sums(b, w, x, dy));
    if (!rp_backward_needs(b, x)) return NULL;
    w                       = rp_backward_as_f32(b, w);
    const RpTensorView of_w = rp_node_view(w), of_x = rp_node_view(x);
    if (w == NULL) return NULL;
    if (rp_view_rows(&of_w) == of_w.ne[1]) { /* a matrix */
        dy = rp_backward_shaped(b, dy, y->view.ne[0], rp_view_rows(&of_x), 1, 1);
        rp_backward_give(b, x, rp_backward_like(b, product(b, dy, w), x));
    } else {
        rp_backward_give(b, x, rp_mul_mat(b->g, rp_cast(b->g, rp_transpose(b->g, w), RP_F32), dy));
    }
    return NULL;
}

const OpRules rp_rules_mul_mat = {.shape = shape, .check = check, .gradient = gradient, .colour = "#f4a582"};
