/* check_backward.h - the validation of types, shapes and parameters of the ops that compute gradients, as in check.h. */
#ifndef BASE_CHECK_BACKWARD_H
#define BASE_CHECK_BACKWARD_H

#include "base/check_loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most experts of a token: the kernels hold their gradients in an array. */
enum { RP_ROUTE_BACKWARD_MAX = 256 };

/* f32 with adjacent elements in a row, and the shape of `like`. */
static inline RpStatus rp_check_like(const char *op, const char *what, const RpTensorView *v,
                                     const RpTensorView *like) {
    bool same = v->dtype == RP_F32 && v->nb[0] == sizeof(float);
    for (int i = 0; i < RP_MAX_DIMS; i++) same = same && v->ne[i] == like->ne[i];
    if (same) return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %s %s [%lld,%lld,%lld,%lld], f32 [%lld,%lld,%lld,%lld] is wanted", op,
                   what, rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1],
                   (long long)v->ne[2], (long long)v->ne[3], (long long)like->ne[0], (long long)like->ne[1],
                   (long long)like->ne[2], (long long)like->ne[3]);
}

/* The first two sources and the result: f32 of one shape. */
static inline RpStatus rp_check_gradient(const char *op, const RpOpArgs *args) {
    RP_TRY(rp_check_unary(op, args));
    return rp_check_like(op, "second source", &args->binary.b, &args->dst);
}

static inline RpStatus rp_check_gelu_backward(const RpOpArgs *args) {
    RP_TRY(rp_check_gradient("gelu_backward", args));
    const RpGeluKind kind = args->params->gelu_backward.kind;
    if (kind == RP_GELU_TANH || kind == RP_GELU_ERF) return RP_OK;
    return rp_fail(RP_E_ARG, "gelu_backward: unknown kind %d", (int)kind);
}

static inline RpStatus rp_check_swiglu_oai_backward(const RpOpArgs *args) {
    static const char   op[] = "swiglu_oai_backward";
    const RpTensorView *y    = &args->dst;
    RP_TRY(rp_check_like(op, "dy", &args->swiglu_oai_backward.dy, y));
    RP_TRY(rp_check_like(op, "gate", &args->swiglu_oai_backward.gate, y));
    RP_TRY(rp_check_like(op, "up", &args->swiglu_oai_backward.up, y));
    RP_TRY(rp_check_like(op, "dup", &args->swiglu_oai_backward.dup, y));
    return rp_check_like(op, "result", y, y);
}

static inline RpStatus rp_check_rms_norm_backward(const RpOpArgs *args) {
    static const char   op[] = "rms_norm_backward";
    const RpTensorView *x = &args->rms_norm_backward.x, *w = &args->rms_norm_backward.w,
                       *dw = &args->rms_norm_backward.dw, *rstd = &args->rms_norm_backward.rstd;
    const int64_t n = args->dst.ne[0], rows = rp_view_rows(&args->dst);
    RP_TRY(rp_check_array(op, "result", &args->dst, RP_F32, n, rows));
    RP_TRY(rp_check_array(op, "dy", &args->rms_norm_backward.dy, RP_F32, n, rows));
    RP_TRY(rp_check_array(op, "x", x, RP_F32, n, rows));
    if (rp_is_present(w)) RP_TRY(rp_check_array(op, "weight", w, RP_F32, n, 1));
    if (rp_is_present(rstd)) RP_TRY(rp_check_array(op, "rstd", rstd, RP_F32, rows, 1));
    if (!rp_is_present(dw)) return RP_OK;
    RP_TRY(rp_check_array(op, "dw", dw, RP_F32, n, 1));
    return rp_is_present(rstd) ? RP_OK : rp_fail(RP_E_SHAPE, "%s: dw needs rstd", op);
}

/* The keys that query t sees end with t + this number: without `causal` with the last one. */
static inline int64_t rp_attention_ahead(const RpOpArgs *args) {
    const int64_t n_q = args->attention_backward.q.ne[1], n_k = args->attention_backward.k.ne[1];
    return args->params->attention_backward.causal != 0 ? n_k - n_q : n_k;
}

static inline RpStatus rp_check_attention_backward(const RpOpArgs *args) {
    static const char   op[] = "attention_backward";
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k,
                       *y = &args->attention_backward.y;
    RP_TRY(rp_check_like(op, "q", q, q));
    RP_TRY(rp_check_like(op, "k", k, k));
    if (q->ne[0] > RP_ATTENTION_MAX_DIM || k->ne[0] != q->ne[0] || k->ne[3] != q->ne[3] || k->ne[2] < 1 ||
        q->ne[2] % k->ne[2] != 0)
        return rp_fail(RP_E_SHAPE,
                       "%s: q [%lld,%lld,%lld,%lld], k [%lld,%lld,%lld,%lld] (heads of at most %d)", op,
                       (long long)q->ne[0], (long long)q->ne[1], (long long)q->ne[2], (long long)q->ne[3],
                       (long long)k->ne[0], (long long)k->ne[1], (long long)k->ne[2], (long long)k->ne[3],
                       RP_ATTENTION_MAX_DIM);
    RpTensorView of_y = *q; /* [d,h,t,b] */
    of_y.ne[1] = q->ne[2], of_y.ne[2] = q->ne[1];
    RP_TRY(rp_check_like(op, "y", y, &of_y));
    RP_TRY(rp_check_like(op, "dy", &args->attention_backward.dy, &of_y));
    RP_TRY(rp_check_like(op, "v", &args->attention_backward.v, k));
    RP_TRY(rp_check_like(op, "dk", &args->attention_backward.dk, k));
    RP_TRY(rp_check_like(op, "dv", &args->attention_backward.dv, k));
    const bool with_sinks = rp_is_present(&args->attention_backward.sinks);
    if (with_sinks) RP_TRY(rp_check_array(op, "sinks", &args->attention_backward.sinks, RP_F32, q->ne[2], 1));
    RP_TRY(rp_check_array(op, "stats", &args->attention_backward.stats, RP_F32,
                          (with_sinks ? 4 : 3) * rp_view_rows(q), 1));
    return rp_check_like(op, "result", &args->dst, q);
}

static inline RpStatus rp_check_get_rows_backward(const RpOpArgs *args) {
    const RpTensorView *dy = &args->get_rows_backward.dy, *ids = &args->get_rows_backward.ids;
    const int64_t       n = dy->ne[0];
    RP_TRY(rp_check_array("get_rows_backward", "dy", dy, RP_F32, n, rp_view_rows(dy)));
    RP_TRY(rp_check_array("get_rows_backward", "ids", ids, RP_I32, rp_view_rows(dy), 1));
    return rp_check_array("get_rows_backward", "result", &args->dst, RP_F32, n,
                          args->params->get_rows_backward.rows);
}

static inline RpStatus rp_check_combine_backward(const RpOpArgs *args) {
    static const char   op[] = "combine_backward";
    const RpTensorView *x    = &args->combine_backward.x;
    const int64_t       n = x->ne[0], k = x->ne[1], t = x->ne[2];
    RP_TRY(rp_check_array(op, "x", x, RP_F32, n, k * t));
    RP_TRY(rp_check_array(op, "result", &args->dst, RP_F32, n, k * t));
    RP_TRY(rp_check_array(op, "dy", &args->combine_backward.dy, RP_F32, n, t));
    RP_TRY(rp_check_array(op, "weights", &args->combine_backward.weights, RP_F32, k, t));
    return rp_check_array(op, "dweights", &args->combine_backward.dweights, RP_F32, k, t);
}

static inline RpStatus rp_check_route_backward(const RpOpArgs *args) {
    static const char   op[]  = "route_backward";
    const RpTensorView *probs = &args->route_backward.probs, *dy = &args->route_backward.dy;
    const int64_t       k = dy->ne[0];
    RP_TRY(rp_check_array(op, "probabilities", probs, RP_F32, probs->ne[0], probs->ne[1]));
    RP_TRY(rp_check_array(op, "result", &args->dst, RP_F32, probs->ne[0], probs->ne[1]));
    RP_TRY(rp_check_array(op, "dy", dy, RP_F32, k, probs->ne[1]));
    RP_TRY(rp_check_ids(op, &args->route_backward.ids, k, probs->ne[1]));
    if (k <= RP_ROUTE_BACKWARD_MAX) return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %lld experts of a token, at most %d", op, (long long)k,
                   RP_ROUTE_BACKWARD_MAX);
}

static inline RpStatus rp_check_repeat_backward(const RpOpArgs *args) {
    const RpTensorView *dy = &args->repeat_backward.dy, *y = &args->dst;
    bool                divides = true;
    for (int i = 0; i < RP_MAX_DIMS; i++) divides = divides && y->ne[i] > 0 && dy->ne[i] % y->ne[i] == 0;
    if (divides && dy->dtype == RP_F32 && y->dtype == RP_F32 && dy->nb[0] == sizeof(float)) return RP_OK;
    return rp_fail(RP_E_SHAPE,
                   "repeat_backward: %s [%lld,%lld,%lld,%lld] is no f32 repeat of [%lld,%lld,%lld,%lld]",
                   rp_dtype_name(dy->dtype), (long long)dy->ne[0], (long long)dy->ne[1], (long long)dy->ne[2],
                   (long long)dy->ne[3], (long long)y->ne[0], (long long)y->ne[1], (long long)y->ne[2],
                   (long long)y->ne[3]);
}

/* k columns of n elements for each of t tokens, in which mul_mat_id finds columns by their number j + k*t. */
static inline RpStatus rp_check_columns(const char *op, const char *what, const RpTensorView *v, int64_t n,
                                        int64_t k, int64_t t) {
    if (v->dtype == RP_F32 && v->ne[0] == n && v->ne[1] == k && v->ne[2] == t && v->ne[3] == 1 &&
        v->nb[0] == sizeof(float))
        return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %s %s [%lld,%lld,%lld,%lld], f32 [%lld,%lld,%lld] is wanted", op, what,
                   rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1], (long long)v->ne[2],
                   (long long)v->ne[3], (long long)n, (long long)k, (long long)t);
}

static inline RpStatus rp_check_mul_mat_id_backward(const RpOpArgs *args) {
    static const char   op[] = "mul_mat_id_backward";
    const RpTensorView *x = &args->mul_mat_id_backward.x, *dy = &args->mul_mat_id_backward.dy,
                       *ids = &args->mul_mat_id_backward.ids;
    const int64_t k = dy->ne[1], t = dy->ne[2], n_expert = args->params->mul_mat_id_backward.experts;
    RP_TRY(rp_check_columns(op, "dy", dy, dy->ne[0], k, t));
    RP_TRY(rp_check_columns(op, "x", x, x->ne[0], x->ne[1] == 1 ? 1 : k, t));
    RP_TRY(rp_check_array(op, "ids", ids, RP_I32, k, t));
    RP_TRY(rp_check_columns(op, "result", &args->dst, x->ne[0], dy->ne[0], n_expert));
    return rp_check_array(op, "result", &args->dst, RP_F32, x->ne[0], dy->ne[0] * n_expert);
}

static inline RpStatus rp_check_mul_mat_id_transposed(const RpOpArgs *args) {
    static const char   op[] = "mul_mat_id_transposed";
    const RpTensorView *w = &args->mul_mat_id_transposed.w, *x = &args->mul_mat_id_transposed.x;
    const int64_t       k = x->ne[1], t = x->ne[2];
    RP_TRY(rp_check_columns(op, "w", w, w->ne[0], w->ne[1], w->ne[2]));
    RP_TRY(rp_check_columns(op, "x", x, w->ne[1], k, t));
    RP_TRY(rp_check_array(op, "ids", &args->mul_mat_id_transposed.ids, RP_I32, k, t));
    return rp_check_columns(op, "result", &args->dst, w->ne[0], k, t);
}

static inline RpStatus rp_check_fill(const RpOpArgs *args) {
    RpTensorView like = args->dst;
    for (int i = 0; i < RP_MAX_DIMS; i++) like.ne[i] = args->params->fill.ne[i];
    RP_TRY(rp_check_like("fill", "result", &args->dst, &like));
    return rp_check_array("fill", "result", &args->dst, RP_F32, like.ne[0], rp_view_rows(&like));
}

#ifdef __cplusplus
}
#endif
#endif
