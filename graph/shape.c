/* Shape rules of the unfused kernel ops. The shapes of each op are in its row of ops.h; results are
 * contiguous, except those of stores, which are the destination itself. Products are [k,m] x [k,t] ->
 * [m,t]: a weight row is contiguous along k. */
#include "graph/shape.h"

#include "base/check.h"
#include "reprise/step.h"

RpShapeRule *rp_shape_rule(TensorOp op) {
    static RpShapeRule *const rules[RP_OP_COUNT] = {
#define OP(ID, name, required, sources, Params, fields, shape, flags) [RP_OP_##ID] = rp_shape_##shape,
        RP_OPS(OP)
#undef OP
    };
    return (unsigned)op < RP_OP_COUNT ? rules[op] : rp_op_info(op)->custom->shape;
}

bool rp_shape_same(const RpTensorView *a, const RpTensorView *b) {
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (a->ne[i] != b->ne[i]) return false;
    return true;
}

bool rp_shape_contiguous_rows(const RpTensorView *v) {
    return v->nb[0] == (size_t)rp_dtype_info(v->dtype)->block_bytes;
}

bool rp_shape_is_index(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_I32 && v->ne[0] == n && rp_view_rows(v) == 1 && rp_shape_contiguous_rows(v);
}

bool rp_shape_is_vector(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_F32 && v->ne[0] == n && rp_view_rows(v) == 1 && rp_shape_contiguous_rows(v);
}

bool rp_shape_is_choice(const RpTensorView *v, int64_t k, int64_t n_tok) {
    return v->dtype == RP_I32 && v->ne[0] == k && v->ne[1] == n_tok && v->ne[2] == 1 && v->ne[3] == 1 &&
           rp_view_is_contiguous(v);
}

static void like(const RpTensorView *x, RpTensorView *out) {
    *out = rp_view_contiguous(x->dtype, x->ne, NULL);
}

SHAPE_RULE(get_rows) {
    (void)params;
    const RpTensorView *w = in->get_rows.w, *ids = in->get_rows.ids;
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        REFUSE(RP_E_DTYPE, "rows must be of a float or weight type");
    if (w->ne[2] != 1 || w->ne[3] != 1) REFUSE(RP_E_SHAPE, "the table must be a matrix");
    if (!rp_shape_contiguous_rows(w)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (ids != NULL && !rp_shape_is_index(ids, ids->ne[0]))
        REFUSE(RP_E_SHAPE, "the ids must be an i32 vector");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[0], ids != NULL ? ids->ne[0] : w->ne[1], 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(unary) {
    (void)params;
    if (in->unary.x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32");
    if (!rp_shape_contiguous_rows(in->unary.x)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    like(in->unary.x, out);
    return RP_OK;
}

SHAPE_RULE(rms_norm) {
    const RpTensorView *x = in->rms_norm.x, *w = in->rms_norm.w;
    if (params->rms_norm.eps < 0.0f) REFUSE(RP_E_ARG, "eps must not be negative");
    if (w != NULL && w->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the weight must be f32");
    if (w != NULL && (w->ne[0] != x->ne[0] || rp_view_rows(w) != 1))
        REFUSE(RP_E_SHAPE, "the weight must be a vector of the row's length");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(binary) {
    const RpTensorView *a = in->binary.a, *b = in->binary.b;
    if (b->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (!rp_shape_contiguous_rows(b)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (a->ne[i] % b->ne[i] != 0)
            REFUSE(RP_E_SHAPE, "the second source does not repeat to the shape of the first");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(mul_mat) {
    const RpTensorView *w = in->mul_mat.w, *x = in->mul_mat.x, *pos = in->mul_mat.pos;
    const bool          transposed = !rp_shape_contiguous_rows(w); /* the values of unfused attention */
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT)
        REFUSE(RP_E_DTYPE, "the first source must be of a float or weight type");
    if (x->dtype != RP_F32 && !(x->dtype == RP_Q8_ACT && rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "the second source must be f32, or q8_act for quantised weights");
    if (w->ne[0] != x->ne[0]) REFUSE(RP_E_SHAPE, "row lengths differ");
    if (x->ne[2] % w->ne[2] != 0 || x->ne[3] % w->ne[3] != 0)
        REFUSE(RP_E_SHAPE, "the outer dimensions of the first do not repeat to those of the second");
    if (!rp_shape_contiguous_rows(x)) REFUSE(RP_E_SHAPE, "the rows of the second source must be contiguous");
    if (transposed &&
        (rp_dtype_is_quant(w->dtype) || w->nb[1] != (size_t)rp_dtype_info(w->dtype)->block_bytes))
        REFUSE(RP_E_SHAPE, "the first source must have contiguous rows, or be a transposed float matrix");
    if ((pos != NULL) != (params->mul_mat.bound != RP_BOUND_NONE))
        REFUSE(RP_E_ARG, "a bound needs positions, and positions a bound");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1]))
        REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], x->ne[1], x->ne[2], x->ne[3]}, NULL);
    return RP_OK;
}

SHAPE_RULE(gemm) {
    const RpTensorView *a = in->gemm.a, *b = in->gemm.b, *c = in->gemm.c;
    if (!rp_is_matrix(a) || !rp_is_matrix(b) || (c != NULL && c->dtype != RP_F32))
        REFUSE(RP_E_DTYPE, "the sources must be f32 matrices, as they are or transposed");
    if (a->ne[0] != b->ne[1] || a->ne[2] != b->ne[2]) REFUSE(RP_E_SHAPE, "the matrices do not fit");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){b->ne[0], a->ne[1], a->ne[2], 1}, NULL);
    if (c != NULL && !(rp_shape_same(c, out) && rp_shape_contiguous_rows(c)))
        REFUSE(RP_E_SHAPE, "the third source must have the shape of the product, and contiguous rows");
    if (c == NULL && params->gemm.beta != 0.0f) REFUSE(RP_E_ARG, "beta needs a third source");
    return RP_OK;
}

SHAPE_RULE(rope) {
    const RpTensorView *x = in->rope.x, *pos = in->rope.pos, *factors = in->rope.factors;
    const RpRopeParams *p = &params->rope;
    if (p->n_dims <= 0 || p->n_dims % 2 != 0 || p->n_dims > x->ne[0])
        REFUSE(RP_E_SHAPE, "n_dims must be even, positive and at most the row's length");
    if (p->mode != RP_ROPE_NORM && p->mode != RP_ROPE_NEOX) REFUSE(RP_E_ARG, "unknown mode");
    if (!(p->freq_base > 0.0f) && !(p->freq_base == 0.0f && factors != NULL))
        REFUSE(RP_E_ARG, "freq_base must be positive, or 0 with frequencies as factors");
    if (x->ne[3] != 1 || !rp_shape_is_index(pos, x->ne[2]))
        REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    if (factors != NULL &&
        (factors->dtype != RP_F32 || factors->ne[0] != p->n_dims / 2 || rp_view_rows(factors) != 1))
        REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(soft_max) {
    const RpTensorView *x = in->soft_max.x, *mask = in->soft_max.mask, *pos = in->soft_max.pos,
                       *sinks = in->soft_max.sinks;
    if (sinks != NULL && !rp_shape_is_vector(sinks, x->ne[2]))
        REFUSE(RP_E_SHAPE, "sinks must be f32, one per head");
    if (params->soft_max.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (params->soft_max.window > 0 && pos == NULL) REFUSE(RP_E_ARG, "a window needs positions");
    if (mask != NULL && mask->dtype != RP_F32 && mask->dtype != RP_F16)
        REFUSE(RP_E_DTYPE, "the mask must be f32 or f16");
    if (mask != NULL &&
        (mask->ne[0] != x->ne[0] || mask->ne[1] != x->ne[1] || mask->ne[2] != 1 || mask->ne[3] != 1))
        REFUSE(RP_E_SHAPE, "the mask must be a matrix of the source's first two dimensions");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1]))
        REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(copy) {
    const RpTensorView *x = in->copy.x, *dst = in->copy.to, *pos = in->copy.pos;
    const RpDtype       to        = dst != NULL ? dst->dtype : params->copy.dtype;
    const bool          quantizes = x->dtype == RP_F32 && to == RP_Q8_0;
    if (!quantizes && (!rp_dtype_is_float(x->dtype) || !rp_dtype_is_float(to)))
        REFUSE(RP_E_DTYPE, "copies convert between f32, f16 and bf16, and from f32 to q8_0");
    if (quantizes && x->ne[0] % 32 != 0) REFUSE(RP_E_SHAPE, "rows must be whole q8_0 blocks of 32");
    if (dst == NULL) {
        if (pos != NULL) REFUSE(RP_E_ARG, "positions need a destination");
        *out = rp_view_contiguous(to, x->ne, NULL);
        return RP_OK;
    }
    if (!rp_shape_contiguous_rows(dst)) REFUSE(RP_E_SHAPE, "the destination's rows must be contiguous");
    if (dst->ne[0] != x->ne[0] || dst->ne[2] != x->ne[2] || dst->ne[3] != x->ne[3])
        REFUSE(RP_E_SHAPE, "source and destination differ in more than their number of rows");
    if (pos == NULL && x->ne[1] > dst->ne[1])
        REFUSE(RP_E_SHAPE, "the destination has fewer rows than the source");
    if (pos != NULL && !rp_shape_is_index(pos, x->ne[1]))
        REFUSE(RP_E_SHAPE, "positions must be i32, one per row");
    *out = *dst;
    return RP_OK;
}

SHAPE_RULE(quantize) {
    (void)params;
    const RpTensorView *x = in->quantize.x;
    if (x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32");
    if (x->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0 || !rp_shape_contiguous_rows(x))
        REFUSE(RP_E_SHAPE, "rows must be contiguous and whole blocks of 32");
    *out = rp_view_contiguous(RP_Q8_ACT, x->ne, NULL);
    return RP_OK;
}

static RpStatus attention_sources(const RpSourceShapes *in, const RpOpParams *params, const char **why) {
    const RpTensorView *q = in->attention.q, *k = in->attention.k, *v = in->attention.v,
                       *pos = in->attention.pos, *mask = in->attention.mask;
    if (q->dtype != RP_F32) REFUSE(RP_E_DTYPE, "queries must be f32");
    if ((k->dtype != RP_F16 && k->dtype != RP_Q8_0 && k->dtype != RP_F32) || v->dtype != k->dtype)
        REFUSE(RP_E_DTYPE, "keys and values must be f16, both q8_0 or both f32");
    if (params->attention.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (!rp_shape_same(k, v)) REFUSE(RP_E_SHAPE, "keys and values differ in shape");
    if (!rp_shape_contiguous_rows(q) || !rp_shape_contiguous_rows(k) || !rp_shape_contiguous_rows(v))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (q->ne[0] != k->ne[0]) REFUSE(RP_E_SHAPE, "head sizes of queries and keys differ");
    if (q->ne[2] % k->ne[2] != 0 || q->ne[3] != k->ne[3])
        REFUSE(RP_E_SHAPE, "the number of query heads must be a multiple of the number of key heads");
    if (k->dtype != RP_F32 && (q->ne[3] != 1 || pos == NULL || mask != NULL))
        REFUSE(RP_E_SHAPE, "a batch, a mask and no positions need keys and values of f32");
    if (pos != NULL && !rp_shape_is_index(pos, q->ne[1]))
        REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    if (mask != NULL && (mask->dtype != RP_F32 || mask->ne[0] != k->ne[1] || rp_view_rows(mask) != q->ne[1] ||
                         mask->ne[1] != q->ne[1] || !rp_shape_contiguous_rows(mask)))
        REFUSE(RP_E_SHAPE, "the mask must be f32, a row of all positions for each token");
    if (in->attention.sinks != NULL && !rp_shape_is_vector(in->attention.sinks, q->ne[2]))
        REFUSE(RP_E_SHAPE, "sinks must be f32, one per head");
    return RP_OK;
}

SHAPE_RULE(attention) {
    const RpTensorView *q = in->attention.q;
    RP_TRY(attention_sources(in, params, why));
    const RpDtype to = params->attention.dtype;
    if (to != RP_F32 && to != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the result is f32 or q8_act");
    if (to == RP_Q8_ACT && in->attention.k->dtype == RP_F32)
        REFUSE(RP_E_DTYPE, "with keys and values of f32 the result is f32");
    if (to == RP_Q8_ACT && q->ne[0] % rp_dtype_info(to)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "heads of a q8_act result must be whole blocks of 32");
    /* f32 [d,h,t,b]; as q8_act the heads of a token are one row, [d*h,t], which is what the next product
     * reads. */
    *out = to == RP_F32 ? rp_view_contiguous(to, (int64_t[]){q->ne[0], q->ne[2], q->ne[1], q->ne[3]}, NULL)
                        : rp_view_contiguous(to, (int64_t[]){q->ne[0] * q->ne[2], q->ne[1], 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(sample_rows) {
    (void)params;
    const RpTensorView *x = in->sample_rows.logits, *seeds = in->sample_rows.seeds,
                       *scratch = in->sample_rows.scratch;
    if (x->dtype != RP_F32 || x->ne[2] != 1 || x->ne[3] != 1 || !rp_view_is_contiguous(x))
        REFUSE(RP_E_SHAPE, "the logits must be f32 [n,t], contiguous");
    if (!rp_shape_is_choice(seeds, 2, x->ne[1]))
        REFUSE(RP_E_SHAPE, "the seeds must be i32 [2,t], contiguous");
    if (scratch->dtype != RP_F32 || scratch->ne[0] < 2 * x->ne[0] + RP_SAMPLE_ROWS_STATE ||
        scratch->ne[1] != x->ne[1] || !rp_view_is_contiguous(scratch))
        REFUSE(RP_E_SHAPE, "the scratch must be f32 [2n+16,t], contiguous");
    *out = rp_view_contiguous(RP_I32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(sample) {
    (void)params;
    if (in->sample.logits->dtype != RP_F32 || rp_view_rows(in->sample.logits) != 1 ||
        !rp_shape_contiguous_rows(in->sample.logits))
        REFUSE(RP_E_SHAPE, "the logits must be f32 of one token");
    if (in->sample.state->dtype != RP_I32 || in->sample.state->ne[0] < RP_STEP_WORDS ||
        rp_view_rows(in->sample.state) != 1)
        REFUSE(RP_E_SHAPE, "the state must be i32 words, at least those of an RpStepState");
    if (!rp_shape_is_vector(in->sample.scratch, 2 * in->sample.logits->ne[0]))
        REFUSE(RP_E_SHAPE, "the scratch must be f32, two for each logit");
    *out = *in->sample.state;
    return RP_OK;
}
