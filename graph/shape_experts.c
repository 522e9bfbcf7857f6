/* Shape rules of the ops of mixture-of-experts layers, for t tokens and k chosen experts of n:
 *
 *     router product [n,t] -> top_k: ids [k,t] -> route: weights [k,t]
 *     mul_mat_id: w [in,out,n], x [in,1|k,t], ids -> [out,k,t]      combine: [out,k,t], weights -> [out,t]
 *
 * The ids are data (I4): no shape depends on them. */
#include "graph/shape.h"

SHAPE_RULE(swiglu_oai) {
    if (in->swiglu_oai.up->dtype != RP_F32 || !rp_shape_same(in->swiglu_oai.gate, in->swiglu_oai.up))
        REFUSE(RP_E_SHAPE, "gate and up must be f32 of one shape");
    if (!(params->swiglu_oai.limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    return rp_shape_binary(in, params, out, why);
}

SHAPE_RULE(top_k) {
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

SHAPE_RULE(route) {
    (void)params;
    const RpTensorView *probs = in->route.probs, *ids = in->route.ids;
    if (probs->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the probabilities must be f32");
    if (probs->ne[2] != 1 || probs->ne[3] != 1 || !rp_shape_contiguous_rows(probs))
        REFUSE(RP_E_SHAPE, "the probabilities must be a matrix of contiguous rows");
    if (!rp_shape_is_choice(ids, ids->ne[0], probs->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    *out = rp_view_contiguous(RP_F32, ids->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(mul_mat_id) {
    (void)params;
    const RpTensorView *w = in->mul_mat_id.w, *x = in->mul_mat_id.x, *ids = in->mul_mat_id.ids;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        REFUSE(RP_E_DTYPE, "the first source must be of a float or weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "the second source must be f32, or q8_act for quantised weights");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "row lengths differ");
    if (w->ne[3] != 1 || x->ne[3] != 1) REFUSE(RP_E_SHAPE, "the sources must have three dimensions");
    if (!rp_shape_contiguous_rows(w) || !rp_shape_contiguous_rows(x))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (!rp_shape_is_choice(ids, ids->ne[0], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    if (x->ne[1] != 1 && x->ne[1] != ids->ne[0])
        REFUSE(RP_E_SHAPE, "the second source must have one row per token, or one per id");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], ids->ne[0], x->ne[2], 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(add_id) {
    const RpTensorView *x = in->add_id.x, *b = in->add_id.b, *ids = in->add_id.ids;
    if (b->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (b->ne[0] != x->ne[0] || b->ne[2] != 1 || b->ne[3] != 1 || !rp_shape_contiguous_rows(b))
        REFUSE(RP_E_SHAPE, "the second source must be a matrix with rows as long as those of the first");
    if (x->ne[3] != 1 || !rp_shape_is_choice(ids, x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be i32, one for each row of the first source");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(combine) {
    (void)params;
    const RpTensorView *x = in->combine.x, *w = in->combine.weights;
    if (x->dtype != RP_F32 || w->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (!rp_shape_contiguous_rows(x) || !rp_shape_contiguous_rows(w))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (x->ne[3] != 1 || w->ne[0] != x->ne[1] || w->ne[1] != x->ne[2] || w->ne[2] != 1 || w->ne[3] != 1)
        REFUSE(RP_E_SHAPE, "the second source must hold one weight for each row of the first");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[0], x->ne[2], 1, 1}, NULL);
    return RP_OK;
}
