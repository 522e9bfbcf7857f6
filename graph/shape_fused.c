/* Shape rules of the fused products, which passes make. All take the activations of one token: a column x
 * of n elements, or in experts_down one column per chosen expert.
 *
 *     column  c = quantize(rms_norm(x))    both optional, see ColumnParams; a q8_act x is used as it is
 *     result  epilogue(w c)                bias, scale, post-norm, residual or activation, depending on the op */
#include "graph/shape.h"

static bool is_one_token(const TensorView *x) { return rp_view_rows(x) == 1 && rp_shape_contiguous_rows(x); }

/* Checks the column x of a product with weights w [n,..], and its prologue. `norm` is the weight of the
 * norm, or NULL. */
static RpStatus check_column(const TensorView *w, const TensorView *x, const TensorView *norm,
                             const ColumnParams *c, const char **why) {
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "weights must be of a weight type");
    if (x->dtype != RP_F32 && x->dtype != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the column must be f32 or q8_act");
    if (x->dtype == RP_Q8_ACT && (c->norm != 0 || c->round != 0))
        REFUSE(RP_E_DTYPE, "a q8_act column takes neither a norm nor quantisation");
    if ((x->dtype == RP_Q8_ACT || c->round != 0) && !rp_dtype_is_quant(w->dtype))
        REFUSE(RP_E_DTYPE, "a q8_act column needs quantised weights");
    if (!rp_shape_contiguous_rows(w)) REFUSE(RP_E_SHAPE, "the rows of the weights must be contiguous");
    if (!is_one_token(x)) REFUSE(RP_E_SHAPE, "the column must be of one token");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "row lengths differ");
    if (c->round != 0 && x->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32");
    if (norm != NULL && (c->norm == 0 || !rp_shape_is_vector(norm, x->ne[0])))
        REFUSE(RP_E_SHAPE, "the weight of the norm must be f32 of the column's length");
    if (c->eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    return RP_OK;
}

static bool is_matrix(const TensorView *w) { return w->ne[2] == 1 && w->ne[3] == 1; }

static bool fits(const TensorView *vector_or_null, int64_t n) {
    return vector_or_null == NULL || rp_shape_is_vector(vector_or_null, n);
}

/* A bias per expert: f32 [m,experts], or NULL. */
static bool fits_experts(const TensorView *bias, const TensorView *w) {
    return bias == NULL || (bias->dtype == RP_F32 && rp_view_is_contiguous(bias) && bias->ne[0] == w->ne[1] &&
                            bias->ne[1] == w->ne[2] && bias->ne[2] == 1 && bias->ne[3] == 1);
}

SHAPE_RULE(linear) {
    const TensorView   *w = src[0];
    const LinearParams *p = &params->linear;
    RP_TRY(check_column(w, src[1], src[2], &p->column, why));
    if (!is_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!fits(src[3], w->ne[1]) || !fits(src[4], w->ne[1]) || !fits(src[5], w->ne[1]))
        REFUSE(RP_E_SHAPE,
               "bias, residual and weight of the post-norm must be f32, one per row of the weights");
    if (src[5] != NULL && p->post_norm == 0)
        REFUSE(RP_E_ARG, "a weight for the post-norm, but post_norm is 0");
    if (p->post_eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(gate_up) {
    const TensorView   *gate = src[0], *up = src[1], *ids = src[4];
    const GateUpParams *p = &params->gate_up;
    RP_TRY(check_column(gate, src[2], src[3], &p->column, why));
    if (gate->dtype != up->dtype || !rp_shape_same(gate, up) || !rp_shape_contiguous_rows(up))
        REFUSE(RP_E_SHAPE, "gate and up must be of one type and shape");
    if (p->dtype != RP_F32 && p->dtype != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the result is f32 or q8_act");
    if (p->dtype == RP_Q8_ACT && gate->ne[1] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a q8_act result must be whole blocks of 32");
    if ((unsigned)p->kind > RP_GATE_OAI) REFUSE(RP_E_ARG, "unknown kind of gate");
    if (p->kind == RP_GATE_OAI && !(p->limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    if (gate->ne[3] != 1 || (ids == NULL && gate->ne[2] != 1))
        REFUSE(RP_E_SHAPE, "the weights must be matrices, or with ids one matrix per expert");
    if (ids != NULL && !rp_shape_is_choice(ids, ids->ne[0], 1))
        REFUSE(RP_E_SHAPE, "ids must be i32 of one token");
    if (!fits_experts(src[5], gate) || !fits_experts(src[6], gate))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per row of the weights");
    *out = rp_view_contiguous(p->dtype, (int64_t[]){gate->ne[1], ids != NULL ? ids->ne[0] : 1, 1, 1}, NULL);
    return RP_OK;
}

/* A KV cache of `row` elements per position. */
static bool is_cache(const TensorView *cache, int64_t row) {
    return (cache->dtype == RP_F16 || cache->dtype == RP_Q8_0) && cache->ne[0] == row && is_matrix(cache) &&
           rp_shape_contiguous_rows(cache);
}

SHAPE_RULE(qkv) {
    const TensorView *wq = src[0], *wk = src[1], *wv = src[2], *x = src[3], *factors = src[13];
    const QkvParams  *p = &params->qkv;
    const int64_t     d = p->head_dim;
    for (int i = 0; i < 3; i++) {
        RP_TRY(check_column(src[i], x, src[7], &p->column, why));
        if (!is_matrix(src[i])) REFUSE(RP_E_SHAPE, "the weights must be matrices");
        if (!fits(src[8 + i], src[i]->ne[1]))
            REFUSE(RP_E_SHAPE, "a bias must be f32, one per row of its weights");
    }
    if (d < 1 || wq->ne[1] % d != 0 || wk->ne[1] % d != 0 || wv->ne[1] % d != 0)
        REFUSE(RP_E_SHAPE, "the rows of the weights must be whole heads");
    if (!rp_shape_is_index(src[4], 1)) REFUSE(RP_E_SHAPE, "the position must be i32 of one token");
    if (!is_cache(src[5], wk->ne[1]) || !is_cache(src[6], wv->ne[1]) || src[5]->dtype != src[6]->dtype)
        REFUSE(RP_E_SHAPE, "the caches must be f16 or q8_0, with rows of all keys or values of a token");
    if (src[5]->dtype == RP_Q8_0 && d % 32 != 0) REFUSE(RP_E_SHAPE, "heads must be whole q8_0 blocks of 32");
    if ((unsigned)p->norm > RP_HEAD_NORM_WHOLE || p->norm_eps < 0.0f) REFUSE(RP_E_ARG, "unknown head norm");
    const bool whole = p->norm == RP_HEAD_NORM_WHOLE;
    if ((src[11] != NULL || src[12] != NULL) && p->norm == RP_HEAD_NORM_NONE)
        REFUSE(RP_E_ARG, "a weight for the head norm, but the norm is none");
    if (!fits(src[11], whole ? wq->ne[1] : d) || !fits(src[12], whole ? wk->ne[1] : d))
        REFUSE(RP_E_SHAPE, "weights of the head norms must be f32 of one head, or of all heads if the norm "
                           "is over the whole row");
    if (p->rope.n_dims <= 0 || p->rope.n_dims % 2 != 0 || p->rope.n_dims > d || !(p->rope.freq_base > 0.0f))
        REFUSE(RP_E_SHAPE, "n_dims must be even, positive and at most head_dim");
    if (!fits(factors, p->rope.n_dims / 2)) REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){d, wq->ne[1] / d, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(router) {
    const TensorView   *w = src[0];
    const RouterParams *p = &params->router;
    RP_TRY(check_column(w, src[1], src[2], &p->column, why));
    if (!is_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!fits(src[3], w->ne[1]) || !fits(src[4], w->ne[1]))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per expert");
    if ((unsigned)p->kind > RP_ROUTER_SIGMOID) REFUSE(RP_E_ARG, "unknown kind of router");
    /* The choice is that of top_k on a row of probabilities, so its rule checks k, groups and the bias. */
    const TensorView probs = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    const OpParams   top_k = {.top_k = p->top_k};
    RP_TRY(rp_shape_top_k((const TensorView *[RP_MAX_SRC]){&probs, src[4]}, &top_k, out, why));
    *out = rp_view_contiguous(RP_I32, (int64_t[]){p->top_k.k, 2, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(experts_down) {
    (void)params;
    const TensorView *w = src[0], *x = src[1], *ids = src[2], *weights = src[3];
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "weights must be of a weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "x must be f32, or q8_act for quantised weights");
    if (!rp_shape_contiguous_rows(w) || !rp_view_is_contiguous(x))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (w->ne[0] != x->ne[0] || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "row lengths differ");
    if (x->ne[2] != 1 || x->ne[3] != 1 || !rp_shape_is_choice(ids, x->ne[1], 1) ||
        !rp_shape_is_vector(weights, x->ne[1]))
        REFUSE(RP_E_SHAPE, "there must be one id and one weight for each row of x, of one token");
    if (!fits_experts(src[4], w)) REFUSE(RP_E_SHAPE, "the bias must be f32, one per row of the weights");
    if (!fits(src[5], w->ne[1])) REFUSE(RP_E_SHAPE, "the residual must be f32, one per row of the weights");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}
