/* Op top_k: the indices of the largest elements of a row. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->top_k.x, *y = &args->dst;
    if (x->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "x must be f32");
    if (y->dtype != RP_I32) return rp_refuse(RP_E_DTYPE, op, args, "the result must be i32");
    const int32_t k = args->params->top_k.k;
    if (k < 1 || k > x->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "k = %d must be from 1 to the length of a row", k);
    if (y->ne[0] != k || y->ne[1] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "the result must have k = %d elements for each row of x", k);
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTopKParams *p = &params->top_k;
    const RpTensorView *x = in->top_k.x, *bias = in->top_k.bias;
    if (x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32");
    if (x->ne[2] != 1 || x->ne[3] != 1 || !rp_shape_contiguous_rows(x))
        REFUSE(RP_E_SHAPE, "the source must be a matrix of contiguous rows");
    if (p->k < 1 || p->k > x->ne[0]) REFUSE(RP_E_ARG, "k must be from 1 to the row's length");
    if (bias != NULL && !rp_shape_is_vector(bias, x->ne[0]))
        REFUSE(RP_E_SHAPE, "the bias must be f32, one per element of a row");
    if (p->n_group > 1) {
        if (x->ne[0] % p->n_group != 0) REFUSE(RP_E_ARG, "the row length must be a multiple of n_group");
        if (p->n_group_used < 1 || p->n_group_used > p->n_group)
            REFUSE(RP_E_ARG, "n_group_used must be from 1 to n_group");
        if (p->k > x->ne[0] / p->n_group * p->n_group_used)
            REFUSE(RP_E_ARG, "k must not exceed the number of experts in the groups used");
    }
    *out = rp_view_contiguous(RP_I32, (int64_t[]){p->k, x->ne[1], 1, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_top_k = {.shape = shape, .check = check, .gradient = rp_gradient_constant, .colour = "#e78ac3"};
