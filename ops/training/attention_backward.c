/* Op attention_backward: the gradients of attention, dq, dk, dv and of the sinks. */
#include "ops/op.h"

static CHECK_RULE(check_heads) {
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k;
    if (q->ne[0] > RP_ATTENTION_MAX_DIM)
        return rp_refuse(RP_E_SHAPE, op, args, "heads must have at most %d elements", RP_ATTENTION_MAX_DIM);
    if (k->ne[0] != q->ne[0]) return rp_refuse(RP_E_SHAPE, op, args, "heads of q and k must have one length");
    if (k->ne[3] != q->ne[3]) return rp_refuse(RP_E_SHAPE, op, args, "q and k must be of one batch, their dimension 3");
    if (k->ne[2] < 1 || q->ne[2] % k->ne[2] != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "heads of q, its dimension 2, must be a multiple of those of k");
    return RP_OK;
}

static CHECK_RULE(check) {
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k,
                       *sinks = &args->attention_backward.sinks;
    RP_TRY(rp_check_like(op, args, "q", q, q));
    RP_TRY(rp_check_like(op, args, "k", k, k));
    RP_TRY(check_heads(op, args));
    RpTensorView of_y = *q; /* [d,h,t,b] */
    of_y.ne[1] = q->ne[2], of_y.ne[2] = q->ne[1];
    RP_TRY(rp_check_like(op, args, "y", &args->attention_backward.y, &of_y));
    RP_TRY(rp_check_like(op, args, "dy", &args->attention_backward.dy, &of_y));
    RP_TRY(rp_check_like(op, args, "v", &args->attention_backward.v, k));
    RP_TRY(rp_check_like(op, args, "dk", &args->attention_backward.dk, k));
    RP_TRY(rp_check_like(op, args, "dv", &args->attention_backward.dv, k));
    if (rp_is_present(sinks)) RP_TRY(rp_check_array(op, args, "sinks", sinks, RP_F32, q->ne[2], 1));
    RP_TRY(rp_check_array(op, args, "stats", &args->attention_backward.stats, RP_F32,
                          (rp_is_present(sinks) ? 4 : 3) * rp_view_rows(q), 1));
    return rp_check_like(op, args, "result", &args->dst, q);
}

static SHAPE_RULE(shape) {
    const RpTensorView *q = in->attention_backward.q, *k = in->attention_backward.k,
                       *sinks  = in->attention_backward.sinks;
    RpTensorView        of_y   = *q;
    const RpTensorView *of_q[] = {in->attention_backward.dy, in->attention_backward.y},
                       *of_k[] = {in->attention_backward.v, in->attention_backward.dk, in->attention_backward.dv};
    of_y.ne[1] = q->ne[2], of_y.ne[2] = q->ne[1];
    if (!rp_shape_is_rows(q) || !rp_shape_is_rows(k))
        REFUSE(RP_E_DTYPE, "queries and keys must be f32 with contiguous rows");
    if (q->ne[0] > RP_ATTENTION_MAX_DIM || k->ne[0] != q->ne[0] || k->ne[3] != q->ne[3] || q->ne[2] % k->ne[2] != 0)
        REFUSE(RP_E_SHAPE, "queries and keys must have one head size and batch, and heads of queries must be a "
                           "multiple of those of keys");
    for (int i = 0; i < 2; i++)
        if (!rp_shape_is_rows(of_q[i]) || !rp_shape_same(of_q[i], &of_y))
            REFUSE(RP_E_SHAPE, "dy and y must be f32 of the shape of the result of attention");
    for (int i = 0; i < 3; i++)
        if (!rp_shape_is_rows(of_k[i]) || !rp_shape_same(of_k[i], k))
            REFUSE(RP_E_SHAPE, "v, dk and dv must be f32 of the shape of the keys");
    if (params->attention_backward.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (sinks != NULL && !rp_shape_is_vector(sinks, q->ne[2]))
        REFUSE(RP_E_SHAPE, "the sinks must be f32, one for each head");
    if (!rp_shape_is_vector(in->attention_backward.stats, (sinks != NULL ? 4 : 3) * rp_view_rows(q)))
        REFUSE(RP_E_SHAPE, "stats must be f32, three for each row of the queries, with sinks four");
    *out = rp_view_contiguous(RP_F32, q->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_attention_backward = {.shape = shape, .check = check, .gradient = rp_gradient_none};
