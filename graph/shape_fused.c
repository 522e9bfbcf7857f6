/* Shape rules of the fused products, which passes make. All take the activations of one token: a column x
 * of n elements, or in experts_down one column per chosen expert.
 *
 *     column  c = quantize(rms_norm(x))    both optional, see RpColumnParams; a q8_act x is used as it is
 *     result  epilogue(w c)                bias, scale, post-norm, residual or activation, depending on the op */
#include "graph/shape.h"

#include "base/check.h"

static bool is_one_token(const RpTensorView *x) {
    return rp_view_rows(x) == 1 && rp_shape_contiguous_rows(x);
}

/* Checks the column x of a product with weights w [n,..], and its prologue. `norm` is the weight of the
 * norm, or NULL. */
static RpStatus check_column(const RpTensorView *w, const RpTensorView *x, const RpTensorView *norm,
                             const RpColumnParams *c, const char **why) {
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

static bool is_matrix(const RpTensorView *w) { return w->ne[2] == 1 && w->ne[3] == 1; }

static bool fits(const RpTensorView *vector_or_null, int64_t n) {
    return vector_or_null == NULL || rp_shape_is_vector(vector_or_null, n);
}

/* A bias per expert: f32 [m,experts], or NULL. */
static bool fits_experts(const RpTensorView *bias, const RpTensorView *w) {
    return bias == NULL || (bias->dtype == RP_F32 && rp_view_is_contiguous(bias) && bias->ne[0] == w->ne[1] &&
                            bias->ne[1] == w->ne[2] && bias->ne[2] == 1 && bias->ne[3] == 1);
}

SHAPE_RULE(linear) {
    const RpTensorView   *w = in->linear.w;
    const RpLinearParams *p = &params->linear;
    RP_TRY(check_column(w, in->linear.x, in->linear.norm, &p->column, why));
    if (!is_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!fits(in->linear.bias, w->ne[1]) || !fits(in->linear.residual, w->ne[1]) ||
        !fits(in->linear.post_norm, w->ne[1]))
        REFUSE(RP_E_SHAPE,
               "bias, residual and weight of the post-norm must be f32, one per row of the weights");
    if (in->linear.post_norm != NULL && p->post_norm == 0)
        REFUSE(RP_E_ARG, "a weight for the post-norm, but post_norm is 0");
    if (p->post_eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(gate_up) {
    const RpTensorView   *gate = in->gate_up.gate, *up = in->gate_up.up, *ids = in->gate_up.ids;
    const RpGateUpParams *p = &params->gate_up;
    RP_TRY(check_column(gate, in->gate_up.x, in->gate_up.norm, &p->column, why));
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
    if (!fits_experts(in->gate_up.gate_bias, gate) || !fits_experts(in->gate_up.up_bias, gate))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per row of the weights");
    *out = rp_view_contiguous(p->dtype, (int64_t[]){gate->ne[1], ids != NULL ? ids->ne[0] : 1, 1, 1}, NULL);
    return RP_OK;
}

/* A KV cache of `row` elements per position. */
static bool is_cache(const RpTensorView *cache, int64_t row) {
    return (cache->dtype == RP_F16 || cache->dtype == RP_Q8_0) && cache->ne[0] == row && is_matrix(cache) &&
           rp_shape_contiguous_rows(cache);
}

SHAPE_RULE(qkv) {
    const RpTensorView *wq = in->qkv.wq, *wk = in->qkv.wk, *wv = in->qkv.wv, *x = in->qkv.x,
                       *factors = in->qkv.factors;
    const RpQkvParams  *p       = &params->qkv;
    const int64_t       d       = p->head_dim;
    RpSourceShape const w[] = {wq, wk, wv}, bias[] = {in->qkv.bq, in->qkv.bk, in->qkv.bv};
    for (int i = 0; i < 3; i++) {
        RP_TRY(check_column(w[i], x, in->qkv.norm, &p->column, why));
        if (!is_matrix(w[i])) REFUSE(RP_E_SHAPE, "the weights must be matrices");
        if (!fits(bias[i], w[i]->ne[1])) REFUSE(RP_E_SHAPE, "a bias must be f32, one per row of its weights");
    }
    if (d < 1 || wq->ne[1] % d != 0 || wk->ne[1] % d != 0 || wv->ne[1] % d != 0)
        REFUSE(RP_E_SHAPE, "the rows of the weights must be whole heads");
    if (!rp_shape_is_index(in->qkv.pos, 1)) REFUSE(RP_E_SHAPE, "the position must be i32 of one token");
    if (!is_cache(in->qkv.k_cache, wk->ne[1]) || !is_cache(in->qkv.v_cache, wv->ne[1]) ||
        in->qkv.k_cache->dtype != in->qkv.v_cache->dtype)
        REFUSE(RP_E_SHAPE, "the caches must be f16 or q8_0, with rows of all keys or values of a token");
    if (in->qkv.k_cache->dtype == RP_Q8_0 && d % 32 != 0)
        REFUSE(RP_E_SHAPE, "heads must be whole q8_0 blocks of 32");
    if ((unsigned)p->norm > RP_HEAD_NORM_WHOLE || p->norm_eps < 0.0f) REFUSE(RP_E_ARG, "unknown head norm");
    const bool whole = p->norm == RP_HEAD_NORM_WHOLE;
    if ((in->qkv.q_norm != NULL || in->qkv.k_norm != NULL) && p->norm == RP_HEAD_NORM_NONE)
        REFUSE(RP_E_ARG, "a weight for the head norm, but the norm is none");
    if (!fits(in->qkv.q_norm, whole ? wq->ne[1] : d) || !fits(in->qkv.k_norm, whole ? wk->ne[1] : d))
        REFUSE(RP_E_SHAPE, "weights of the head norms must be f32 of one head, or of all heads if the norm "
                           "is over the whole row");
    if (p->rope.n_dims <= 0 || p->rope.n_dims % 2 != 0 || p->rope.n_dims > d || !(p->rope.freq_base > 0.0f))
        REFUSE(RP_E_SHAPE, "n_dims must be even, positive and at most head_dim");
    if (!fits(factors, p->rope.n_dims / 2)) REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){d, wq->ne[1] / d, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(router) {
    const RpTensorView   *w = in->router.w;
    const RpRouterParams *p = &params->router;
    RP_TRY(check_column(w, in->router.x, in->router.norm, &p->column, why));
    if (!is_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!fits(in->router.bias, w->ne[1]) || !fits(in->router.select_bias, w->ne[1]))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per expert");
    if ((unsigned)p->kind > RP_ROUTER_SIGMOID) REFUSE(RP_E_ARG, "unknown kind of router");
    /* The choice is that of top_k on a row of probabilities, so its rule checks k, groups and the bias. */
    if (p->quantize != 0 && (in->router.x->dtype != RP_F32 || p->column.round != 0))
        REFUSE(RP_E_DTYPE, "only an f32 column can be quantised beside the product");
    if (p->quantize != 0 && w->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32");
    const RpTensorView   probs  = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    const RpOpParams     top_k  = {.top_k = p->top_k};
    const RpSourceShapes choice = {
        .top_k = {.x = &probs, .bias = in->router.select_bias}
    };
    RP_TRY(rp_shape_top_k(&choice, &top_k, out, why));
    *out = rp_view_contiguous(RP_I32, (int64_t[]){p->top_k.k, rp_router_rows(p, w->ne[0]), 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(experts_down) {
    (void)params;
    const RpTensorView *w = in->experts_down.w, *x = in->experts_down.x, *ids = in->experts_down.ids,
                       *weights = in->experts_down.weights;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT) REFUSE(RP_E_DTYPE, "weights must be of a weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "x must be f32, or q8_act for quantised weights");
    if (!rp_shape_contiguous_rows(w) || !rp_view_is_contiguous(x))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (w->ne[0] != x->ne[0] || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "row lengths differ");
    if (x->ne[2] != 1 || x->ne[3] != 1 || !rp_shape_is_choice(ids, x->ne[1], 1) ||
        !rp_shape_is_vector(weights, x->ne[1]))
        REFUSE(RP_E_SHAPE, "there must be one id and one weight for each row of x, of one token");
    if (!fits_experts(in->experts_down.bias, w))
        REFUSE(RP_E_SHAPE, "the bias must be f32, one per row of the weights");
    if (!fits(in->experts_down.residual, w->ne[1]))
        REFUSE(RP_E_SHAPE, "the residual must be f32, one per row of the weights");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}
