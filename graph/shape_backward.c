/* Shape rules of the ops that compute gradients. A gradient has the shape of what it belongs to:
 *
 *     dy, x -> silu_backward, gelu_backward: like x;  dy, x, w -> rms_norm_backward: like x, and dw like w
 *     dy [d,h,t,b], q [d,t,h,b], k, v -> attention_backward: like q, and dk, dv like k
 *     dy [n,t], ids -> get_rows_backward [n,rows];  dy [n,t], x [n,k,t] -> combine_backward: like x
 *     x [n,k,t], dy [m,k,t], ids -> mul_mat_id_backward [n,m,experts];  w [n,m,experts], x [m,k,t], ids ->
 *     mul_mat_id_transposed [n,k,t] */
#include "graph/shape.h"

#include "base/check_backward.h"

static bool is_rows(const RpTensorView *v) { return v->dtype == RP_F32 && rp_shape_contiguous_rows(v); }

static bool is_contiguous(const RpTensorView *v) { return v->dtype == RP_F32 && rp_view_is_contiguous(v); }

SHAPE_RULE(gradient) {
    if (!is_rows(in->binary.b) || !rp_shape_same(in->binary.a, in->binary.b))
        REFUSE(RP_E_SHAPE, "both sources must be f32 of one shape with contiguous rows");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(swiglu_oai_backward) {
    const RpTensorView *dy = in->swiglu_oai_backward.dy, *dup = in->swiglu_oai_backward.dup;
    const RpTensorView *of[] = {dy, in->swiglu_oai_backward.gate, in->swiglu_oai_backward.up, dup};
    if (!(params->swiglu_oai_backward.limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    for (int i = 0; i < 4; i++)
        if (!is_rows(of[i]) || !rp_shape_same(of[i], dy))
            REFUSE(RP_E_SHAPE, "dy, gate, up and dup must be f32 of one shape with contiguous rows");
    *out = rp_view_contiguous(RP_F32, dy->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(rms_norm_backward) {
    const RpTensorView *x = in->rms_norm_backward.x, *w = in->rms_norm_backward.w,
                       *dw = in->rms_norm_backward.dw, *rstd = in->rms_norm_backward.rstd;
    if (params->rms_norm_backward.eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    if (!is_contiguous(x) || !is_contiguous(in->rms_norm_backward.dy) ||
        !rp_shape_same(x, in->rms_norm_backward.dy))
        REFUSE(RP_E_SHAPE, "dy and x must be contiguous f32 of one shape");
    if ((w != NULL && !rp_shape_is_vector(w, x->ne[0])) || (dw != NULL && !rp_shape_is_vector(dw, x->ne[0])))
        REFUSE(RP_E_SHAPE, "weight and dw must be vectors of the row's length");
    if (rstd != NULL && !rp_shape_is_vector(rstd, rp_view_rows(x)))
        REFUSE(RP_E_SHAPE, "rstd must be f32, one for each row");
    if (dw != NULL && rstd == NULL) REFUSE(RP_E_ARG, "dw needs rstd");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(attention_backward) {
    const RpTensorView *q = in->attention_backward.q, *k = in->attention_backward.k,
                       *sinks  = in->attention_backward.sinks;
    RpTensorView        of_y   = *q;
    const RpTensorView *of_q[] = {in->attention_backward.dy, in->attention_backward.y},
                       *of_k[] = {in->attention_backward.v, in->attention_backward.dk,
                                  in->attention_backward.dv};
    of_y.ne[1] = q->ne[2], of_y.ne[2] = q->ne[1];
    if (!is_rows(q) || !is_rows(k)) REFUSE(RP_E_DTYPE, "queries and keys must be f32 with contiguous rows");
    if (q->ne[0] > RP_ATTENTION_MAX_DIM || k->ne[0] != q->ne[0] || k->ne[3] != q->ne[3] ||
        q->ne[2] % k->ne[2] != 0)
        REFUSE(RP_E_SHAPE, "head size, batch or number of heads of queries and keys do not fit");
    for (int i = 0; i < 2; i++)
        if (!is_rows(of_q[i]) || !rp_shape_same(of_q[i], &of_y))
            REFUSE(RP_E_SHAPE, "dy and y must be f32 of the shape of the result of attention");
    for (int i = 0; i < 3; i++)
        if (!is_rows(of_k[i]) || !rp_shape_same(of_k[i], k))
            REFUSE(RP_E_SHAPE, "v, dk and dv must be f32 of the shape of the keys");
    if (params->attention_backward.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (sinks != NULL && !rp_shape_is_vector(sinks, q->ne[2]))
        REFUSE(RP_E_SHAPE, "the sinks must be f32, one for each head");
    if (!rp_shape_is_vector(in->attention_backward.stats, (sinks != NULL ? 4 : 3) * rp_view_rows(q)))
        REFUSE(RP_E_SHAPE, "stats must be f32, three for each row of the queries, with sinks four");
    *out = rp_view_contiguous(RP_F32, q->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(get_rows_backward) {
    const RpTensorView *dy = in->get_rows_backward.dy, *ids = in->get_rows_backward.ids;
    if (params->get_rows_backward.rows < 1) REFUSE(RP_E_ARG, "the table must have rows");
    if (!is_contiguous(dy) || dy->ne[2] != 1 || dy->ne[3] != 1)
        REFUSE(RP_E_SHAPE, "dy must be a contiguous f32 matrix");
    if (!rp_shape_is_index(ids, dy->ne[1])) REFUSE(RP_E_SHAPE, "the ids must be i32, one per row of dy");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){dy->ne[0], params->get_rows_backward.rows, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(combine_backward) {
    const RpTensorView *x = in->combine_backward.x, *dy = in->combine_backward.dy,
                       *of_w[] = {in->combine_backward.weights, in->combine_backward.dweights};
    (void)params;
    if (!is_contiguous(x) || !is_contiguous(dy) || x->ne[3] != 1 || dy->ne[0] != x->ne[0] ||
        dy->ne[1] != x->ne[2] || rp_view_rows(dy) != dy->ne[1])
        REFUSE(RP_E_SHAPE, "x [n,k,t] and dy [n,t] must be contiguous f32");
    for (int i = 0; i < 2; i++)
        if (!is_contiguous(of_w[i]) || of_w[i]->ne[0] != x->ne[1] || rp_view_rows(of_w[i]) != x->ne[2])
            REFUSE(RP_E_SHAPE, "weights and dweights must be contiguous f32 [k,t]");
    *out = rp_view_contiguous(RP_F32, x->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(route_backward) {
    const RpTensorView *dy = in->route_backward.dy, *probs = in->route_backward.probs;
    (void)params;
    if (!is_contiguous(probs) || rp_view_rows(probs) != probs->ne[1])
        REFUSE(RP_E_SHAPE, "the probabilities must be a contiguous f32 matrix");
    if (!is_contiguous(dy) || dy->ne[1] != probs->ne[1] || rp_view_rows(dy) != dy->ne[1])
        REFUSE(RP_E_SHAPE, "dy must be contiguous f32 [k,t]");
    if (dy->ne[0] > RP_ROUTE_BACKWARD_MAX) REFUSE(RP_E_SHAPE, "too many experts of a token");
    if (!rp_shape_is_choice(in->route_backward.ids, dy->ne[0], dy->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, probs->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(repeat_backward) {
    const RpTensorView *dy = in->repeat_backward.dy;
    const int64_t      *ne = params->repeat_backward.ne;
    if (!is_rows(dy)) REFUSE(RP_E_DTYPE, "the source must be f32 with contiguous rows");
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (ne[i] < 1 || dy->ne[i] % ne[i] != 0)
            REFUSE(RP_E_SHAPE, "the dimensions of the result must divide those of the source");
    *out = rp_view_contiguous(RP_F32, ne, NULL);
    return RP_OK;
}

/* f32 [n,k,t]: k columns for each of t tokens. */
static bool is_columns(const RpTensorView *v, int64_t n, int64_t k, int64_t t) {
    return is_rows(v) && v->ne[0] == n && v->ne[1] == k && v->ne[2] == t && v->ne[3] == 1;
}

SHAPE_RULE(mul_mat_id_backward) {
    const RpTensorView *x = in->mul_mat_id_backward.x, *dy = in->mul_mat_id_backward.dy;
    const int64_t       k = dy->ne[1], t = dy->ne[2], n_expert = params->mul_mat_id_backward.experts;
    if (n_expert < 1) REFUSE(RP_E_ARG, "there must be experts");
    if (!is_columns(dy, dy->ne[0], k, t) || !is_columns(x, x->ne[0], x->ne[1] == 1 ? 1 : k, t))
        REFUSE(RP_E_SHAPE, "x [n,k,t] or [n,1,t] and dy [m,k,t] must be f32 with contiguous rows");
    if (!rp_shape_is_choice(in->mul_mat_id_backward.ids, k, t))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){x->ne[0], dy->ne[0], n_expert, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(mul_mat_id_transposed) {
    const RpTensorView *w = in->mul_mat_id_transposed.w, *x = in->mul_mat_id_transposed.x;
    (void)params;
    if (!is_rows(w) || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "w must be f32 [n,m,experts] with contiguous rows");
    if (!is_columns(x, w->ne[1], x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "x must be f32 [m,k,t] with contiguous rows");
    if (!rp_shape_is_choice(in->mul_mat_id_transposed.ids, x->ne[1], x->ne[2]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k,t]");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[0], x->ne[1], x->ne[2], 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(fill) {
    (void)in;
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (params->fill.ne[i] < 1) REFUSE(RP_E_SHAPE, "all dimensions must be positive");
    *out = rp_view_contiguous(RP_F32, params->fill.ne, NULL);
    return RP_OK;
}
