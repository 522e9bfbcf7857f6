/* Op qkv: queries, keys and values of one token, with norms, rotation and the stores into the KV cache. */
#include "ops/op.h"

#include "ops/fused/column.h"
#include "ops/fused/qkv.h"

static RpStatus check_projection(const char *op, const RpOpArgs *args, int i) {
    static const char *const bias[] = {"bq", "bk", "bv"}, *const norm[] = {"q_norm", "k_norm", ""};
    const RpQkvParams *p    = &args->params->qkv;
    const QkvSources   s    = rp_qkv_sources(args, i);
    const int64_t      rows = s.w->ne[1], d = p->head_dim;
    if (i > 0 && !rp_is_present(s.w)) return RP_OK;
    RP_TRY(rp_check_column(op, args, s.w, &args->qkv.x, &args->qkv.norm, &p->column));
    RP_TRY(rp_check_vector(op, args, bias[i], s.bias, rows));
    if (d < 1 || rows % d != 0 || (i == 0 && p->gates != 0 && rows / d % 2 != 0))
        return rp_refuse(RP_E_SHAPE, op, args, "%lld rows must be whole heads of %lld", (long long)rows, (long long)d);
    if (s.norm != NULL) RP_TRY(rp_check_vector(op, args, norm[i], s.norm, p->norm == RP_HEAD_NORM_WHOLE ? rows : d));
    if (s.cache == NULL) return RP_OK;
    if (s.cache->ne[0] != d || s.cache->ne[2] * d != rows)
        return rp_refuse(RP_E_SHAPE, op, args, "the caches must have rows of %lld and the heads of wk and wv",
                         (long long)d);
    if (s.cache->dtype != RP_F16 && s.cache->dtype != RP_Q8_0)
        return rp_refuse(RP_E_SHAPE, op, args, "the caches must be f16 or q8_0");
    return RP_OK;
}

static CHECK_RULE(check) {
    const RpQkvParams *p = &args->params->qkv;
    const int64_t      d = p->head_dim;
    if (rp_is_present(&args->qkv.wk) != rp_is_present(&args->qkv.wv) ||
        rp_is_present(&args->qkv.wk) != rp_is_present(&args->qkv.k_cache) ||
        rp_is_present(&args->qkv.wk) != rp_is_present(&args->qkv.v_cache))
        return rp_refuse(RP_E_ARG, op, args, "wk, wv and both caches must be given together");
    for (int i = 0; i < 3; i++) RP_TRY(check_projection(op, args, i));
    if (p->gates != 0 && p->norm == RP_HEAD_NORM_WHOLE)
        return rp_refuse(RP_E_ARG, op, args, "queries with gates must have a norm of each head, or none");
    if (p->value_norm != 0 && p->norm != RP_HEAD_NORM_EACH)
        return rp_refuse(RP_E_ARG, op, args, "norm = %d must be RP_HEAD_NORM_EACH, 1, where value_norm is not 0",
                         (int)p->norm);
    if (p->rope.n_dims < 0 || p->rope.n_dims > d || p->rope.n_dims > RP_ROPE_MAX_DIMS || p->rope.n_dims % 2 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "n_dims = %d must be even, from 0 to heads of %lld and to %d",
                         p->rope.n_dims, (long long)d, RP_ROPE_MAX_DIMS);
    return rp_check_result(op, args, RP_F32, d, args->qkv.wq.ne[1] / d);
}

/* A KV cache [d,n_ctx,heads] for the rows of w. */
static bool is_cache(const RpTensorView *cache, int64_t d, const RpTensorView *w) {
    return (cache->dtype == RP_F16 || cache->dtype == RP_Q8_0) && cache->ne[0] == d && cache->ne[2] == w->ne[1] / d &&
           cache->ne[3] == 1 && rp_shape_contiguous_rows(cache);
}

static SHAPE_RULE(shape) {
    const RpTensorView *wq = in->qkv.wq, *wk = in->qkv.wk, *wv = in->qkv.wv, *x = in->qkv.x, *factors = in->qkv.factors;
    const RpQkvParams  *p   = &params->qkv;
    const int64_t       d   = p->head_dim;
    RpSourceShape const w[] = {wq, wk, wv}, bias[] = {in->qkv.bq, in->qkv.bk, in->qkv.bv};
    const bool          stores = wk != NULL;
    if ((wv != NULL) != stores || (in->qkv.k_cache != NULL) != stores || (in->qkv.v_cache != NULL) != stores)
        REFUSE(RP_E_ARG, "wk, wv and both caches must be given together");
    if (!stores && (bias[1] != NULL || bias[2] != NULL || in->qkv.k_norm != NULL || p->value_norm != 0))
        REFUSE(RP_E_ARG, "wk and wv must be given where there is a bias or norm of keys or values");
    for (int i = 0; i < (stores ? 3 : 1); i++) {
        RP_TRY(rp_shape_column(w[i], x, in->qkv.norm, &p->column, why));
        if (!rp_shape_is_one_matrix(w[i])) REFUSE(RP_E_SHAPE, "the weights must be matrices");
        if (!rp_shape_fits(bias[i], w[i]->ne[1])) REFUSE(RP_E_SHAPE, "a bias must be f32, one per row of its weights");
    }
    if (d < 1 || wq->ne[1] % (p->gates != 0 ? 2 * d : d) != 0 || (stores && (wk->ne[1] % d != 0 || wv->ne[1] % d != 0)))
        REFUSE(RP_E_SHAPE, "the rows of the weights must be whole heads");
    if (!rp_shape_is_index(in->qkv.pos, 1)) REFUSE(RP_E_SHAPE, "the position must be i32 of one token");
    if (in->qkv.rows != NULL && !rp_shape_is_index(in->qkv.rows, 1))
        REFUSE(RP_E_SHAPE, "the row must be i32 of one token");
    if (stores && (!is_cache(in->qkv.k_cache, d, wk) || !is_cache(in->qkv.v_cache, d, wv) ||
                   in->qkv.k_cache->dtype != in->qkv.v_cache->dtype))
        REFUSE(RP_E_SHAPE, "the caches must be f16 or q8_0 [head_dim,n_ctx,heads of keys or values]");
    if ((unsigned)p->norm > RP_HEAD_NORM_WHOLE || p->norm_eps < 0.0f)
        REFUSE(RP_E_ARG, "norm must be from RP_HEAD_NORM_NONE, 0, to RP_HEAD_NORM_WHOLE, 2, and norm_eps not negative");
    const bool whole = p->norm == RP_HEAD_NORM_WHOLE;
    if (whole && p->gates != 0) REFUSE(RP_E_ARG, "queries with gates must have a norm of each head, or none");
    if (p->value_norm != 0 && p->norm != RP_HEAD_NORM_EACH)
        REFUSE(RP_E_ARG, "norm must be RP_HEAD_NORM_EACH, 1, where value_norm is not 0");
    if ((in->qkv.q_norm != NULL || in->qkv.k_norm != NULL) && p->norm == RP_HEAD_NORM_NONE)
        REFUSE(RP_E_ARG, "norm must not be RP_HEAD_NORM_NONE, 0, where a weight for the head norm is given");
    if (!rp_shape_fits(in->qkv.q_norm, whole ? wq->ne[1] : d) ||
        (stores && !rp_shape_fits(in->qkv.k_norm, whole ? wk->ne[1] : d)))
        REFUSE(RP_E_SHAPE, "weights of the head norms must be f32 of one head, or of all heads if the norm "
                           "is over the whole row");
    if (p->rope.n_dims < 0 || p->rope.n_dims % 2 != 0 || p->rope.n_dims > d ||
        (p->rope.n_dims > 0 && !(p->rope.freq_base > 0.0f)))
        REFUSE(RP_E_SHAPE, "n_dims must be even, from 0 to head_dim");
    if (!rp_shape_fits(factors, p->rope.n_dims / 2)) REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){d, wq->ne[1] / d, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    const RpQkvParams *p = &n->params.qkv;
    rp_column_parts(list, &p->column);
    rp_add_part(list, n->from.qkv.wk != NULL, "products");
    rp_add_part(list, n->from.qkv.wk == NULL, "product");
    rp_add_part(list, n->from.qkv.bq != NULL || n->from.qkv.bk != NULL || n->from.qkv.bv != NULL, "bias");
    rp_add_part(list, p->norm == RP_HEAD_NORM_EACH, "norm of each head");
    rp_add_part(list, p->norm == RP_HEAD_NORM_WHOLE, "norm of all heads");
    rp_add_part(list, p->value_norm != 0, "norm of values");
    rp_add_part(list, p->rope.n_dims > 0, "rotation");
    rp_add_part(list, p->gates != 0, "gates");
    rp_add_part(list, n->from.qkv.wk != NULL, "store");
}

const OpRules rp_rules_qkv = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#c2a5cf"};
