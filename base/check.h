/* check.h - the validation of each op's types, shapes and parameters, shared by the CPU kernels and the CUDA launchers.
 * A kernel calls the check of its op first; on failure the text names the op and both shapes (I11).
 *
 *   RpStatus rp_cpu_silu(const RpOpArgs *args, RpKernelCtx *ctx) {
 *       RP_TRY(rp_check_unary("silu", args));
 *
 * ops.h has the formulas and shapes. Checks return RP_E_DTYPE, RP_E_SHAPE or RP_E_ARG. They do not repeat the whole
 * shape rule of the op (graph/shape.c), which has checked the node when the graph was built.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include "base/kernels.h"
#include "base/step_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Smallest scale of a q8_0 block in the KV cache and of a q8_act block: 2^-126, the smallest normal float. Further below
 * 1/scale would overflow, so blocks with a smaller scale get quants 0. */
#define RP_SMALLEST_SCALE 1.17549435e-38f

/* Most elements of a head in op attention, and most rotated elements of a row in rope and qkv: the kernels hold them in
 * arrays of fixed size. */
enum { RP_ATTENTION_MAX_DIM = 512, RP_ROPE_MAX_DIMS = 1024 };

static inline bool rp_dtype_is_float(RpDtype t) { return t == RP_F32 || t == RP_F16 || t == RP_BF16; }

/* The first source and the result: f32 of the same shape. */
static inline RpStatus rp_check_unary(const char *op, const RpOpArgs *args) {
    const RpTensorView *x = &args->unary.x, *y = &args->dst;
    if (x->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: source %s, result %s: f32 is wanted", op, rp_dtype_name(x->dtype),
                       rp_dtype_name(y->dtype));
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (x->ne[i] != y->ne[i])
            return rp_fail(
                RP_E_SHAPE, "%s: source [%lld,%lld,%lld,%lld] and result [%lld,%lld,%lld,%lld] differ", op,
                (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2], (long long)x->ne[3],
                (long long)y->ne[0], (long long)y->ne[1], (long long)y->ne[2], (long long)y->ne[3]);
    return RP_OK;
}

/* Binary ops: as rp_check_unary, and the second source is f32 whose dimensions divide those of the first. */
static inline RpStatus rp_check_repeat(const char *op, const RpOpArgs *args) {
    const RpTensorView *a = &args->binary.a, *b = &args->binary.b;
    RP_TRY(rp_check_unary(op, args));
    if (b->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: second source %s: f32 is wanted", op, rp_dtype_name(b->dtype));
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (b->ne[i] < 1 || a->ne[i] % b->ne[i] != 0)
            return rp_fail(RP_E_SHAPE, "%s: [%lld,%lld,%lld,%lld] does not repeat to [%lld,%lld,%lld,%lld]",
                           op, (long long)b->ne[0], (long long)b->ne[1], (long long)b->ne[2],
                           (long long)b->ne[3], (long long)a->ne[0], (long long)a->ne[1], (long long)a->ne[2],
                           (long long)a->ne[3]);
    return RP_OK;
}

/* Ids of experts: i32 [k, n_tok]. */
static inline RpStatus rp_check_ids(const char *op, const RpTensorView *ids, int64_t k, int64_t n_tok) {
    if (ids->dtype != RP_I32)
        return rp_fail(RP_E_DTYPE, "%s: ids are %s: i32 is wanted", op, rp_dtype_name(ids->dtype));
    if (ids->ne[0] != k || ids->ne[1] != n_tok)
        return rp_fail(RP_E_SHAPE, "%s: ids [%lld,%lld], [%lld,%lld] is wanted", op, (long long)ids->ne[0],
                       (long long)ids->ne[1], (long long)k, (long long)n_tok);
    return RP_OK;
}

static inline RpStatus rp_check_rms_norm(const RpOpArgs *args) {
    const RpTensorView *x = &args->rms_norm.x, *w = &args->rms_norm.w;
    RP_TRY(rp_check_unary("rms_norm", args));
    if (rp_is_present(&args->rms_norm.w) && (w->ne[0] != x->ne[0] || w->dtype != RP_F32))
        return rp_fail(RP_E_SHAPE, "rms_norm: weight %s [%lld] for rows of f32 [%lld]",
                       rp_dtype_name(w->dtype), (long long)w->ne[0], (long long)x->ne[0]);
    return RP_OK;
}

static inline RpStatus rp_check_rope(const RpOpArgs *args) {
    const RpTensorView *x = &args->rope.x, *pos = &args->rope.pos;
    const RpRopeParams *p = &args->params->rope;
    RP_TRY(rp_check_unary("rope", args));
    if (p->n_dims < 2 || p->n_dims > x->ne[0] || p->n_dims > RP_ROPE_MAX_DIMS || p->n_dims % 2 != 0)
        return rp_fail(RP_E_SHAPE, "rope: %d dimensions of rows of %lld (at most %d)", p->n_dims,
                       (long long)x->ne[0], RP_ROPE_MAX_DIMS);
    if (pos->ne[0] != x->ne[2])
        return rp_fail(RP_E_SHAPE, "rope: %lld positions for x [%lld,%lld,%lld]", (long long)pos->ne[0],
                       (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2]);
    return RP_OK;
}

static inline RpStatus rp_check_soft_max(const RpOpArgs *args) {
    const RpTensorView *x = &args->soft_max.x, *mask = &args->soft_max.mask, *pos = &args->soft_max.pos;
    RP_TRY(rp_check_unary("soft_max", args));
    if (rp_is_present(&args->soft_max.mask) && (mask->ne[0] != x->ne[0] || mask->ne[1] != x->ne[1]))
        return rp_fail(RP_E_SHAPE, "soft_max: mask [%lld,%lld] for x [%lld,%lld]", (long long)mask->ne[0],
                       (long long)mask->ne[1], (long long)x->ne[0], (long long)x->ne[1]);
    if (rp_is_present(&args->soft_max.pos) && pos->ne[0] != x->ne[1])
        return rp_fail(RP_E_SHAPE, "soft_max: %lld positions for x [%lld,%lld]", (long long)pos->ne[0],
                       (long long)x->ne[0], (long long)x->ne[1]);
    if (rp_is_present(&args->soft_max.sinks) && args->soft_max.sinks.ne[0] != x->ne[2])
        return rp_fail(RP_E_SHAPE, "soft_max: %lld sinks for %lld heads",
                       (long long)args->soft_max.sinks.ne[0], (long long)x->ne[2]);
    return RP_OK;
}

static inline RpStatus rp_check_copy(const RpOpArgs *args) {
    const RpTensorView *x = &args->copy.x, *y = &args->dst;
    const bool          quantizes = x->dtype == RP_F32 && y->dtype == RP_Q8_0;
    if (quantizes && x->ne[0] % 32 != 0)
        return rp_fail(RP_E_SHAPE, "copy: rows of %lld are no whole q8_0 blocks of 32", (long long)x->ne[0]);
    if (!quantizes && (!rp_dtype_is_float(x->dtype) || !rp_dtype_is_float(y->dtype)))
        return rp_fail(RP_E_DTYPE, "copy: from %s to %s: no kernel for this", rp_dtype_name(x->dtype),
                       rp_dtype_name(y->dtype));
    if (x->ne[0] != y->ne[0] || (!rp_is_present(&args->copy.to) && rp_view_rows(x) != rp_view_rows(y)))
        return rp_fail(RP_E_SHAPE, "copy: from [%lld,%lld] to [%lld,%lld]", (long long)x->ne[0],
                       (long long)rp_view_rows(x), (long long)y->ne[0], (long long)rp_view_rows(y));
    return RP_OK;
}

static inline RpStatus rp_check_sample(const RpOpArgs *args) {
    const RpTensorView *x = &args->sample.logits, *state = &args->sample.state,
                       *scratch = &args->sample.scratch;
    if (x->dtype != RP_F32 || state->dtype != RP_I32 || scratch->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "sample: logits %s, state %s, scratch %s: f32, i32 and f32 are wanted",
                       rp_dtype_name(x->dtype), rp_dtype_name(state->dtype), rp_dtype_name(scratch->dtype));
    if (x->ne[0] > INT32_MAX / 2 || x->ne[1] != rp_view_rows(x) || state->ne[0] < RP_STEP_WORDS ||
        state->ne[1] != x->ne[1] || scratch->ne[0] < 2 * x->ne[0] || scratch->ne[1] != x->ne[1])
        return rp_fail(RP_E_SHAPE, "sample: logits [%lld,%lld], state [%lld], scratch [%lld]",
                       (long long)x->ne[0], (long long)rp_view_rows(x), (long long)state->ne[0],
                       (long long)scratch->ne[0]);
    return RP_OK;
}

/* Scratch of sample_rows, f32: the candidates of each token [2n], then RpStepState of each token. */
enum { RP_SAMPLE_ROWS_STATE = 16 };

static inline RpStatus rp_check_sample_rows(const RpOpArgs *args) {
    const RpTensorView *x = &args->sample_rows.logits, *seeds = &args->sample_rows.seeds,
                       *scratch = &args->sample_rows.scratch, *y = &args->dst;
    const RpSampleRowsParams *p = &args->params->sample_rows;
    if (x->dtype != RP_F32 || seeds->dtype != RP_I32 || scratch->dtype != RP_F32 || y->dtype != RP_I32)
        return rp_fail(
            RP_E_DTYPE,
            "sample_rows: logits %s, seeds %s, scratch %s, result %s: f32, i32, f32, i32 are wanted",
            rp_dtype_name(x->dtype), rp_dtype_name(seeds->dtype), rp_dtype_name(scratch->dtype),
            rp_dtype_name(y->dtype));
    if (x->ne[0] > INT32_MAX / 4 || x->ne[2] != 1 || x->ne[3] != 1 || seeds->ne[0] != 2 ||
        seeds->ne[1] != x->ne[1] || scratch->ne[0] < 2 * x->ne[0] + RP_SAMPLE_ROWS_STATE ||
        scratch->ne[1] != x->ne[1] || y->ne[0] != x->ne[1])
        return rp_fail(
            RP_E_SHAPE,
            "sample_rows: logits [%lld,%lld], seeds [%lld,%lld], scratch [%lld,%lld], result [%lld]",
            (long long)x->ne[0], (long long)x->ne[1], (long long)seeds->ne[0], (long long)seeds->ne[1],
            (long long)scratch->ne[0], (long long)scratch->ne[1], (long long)y->ne[0]);
    return rp_sampling_check(p->temperature, p->top_k, p->top_p, p->min_p);
}

static inline RpStatus rp_check_quantize(const RpOpArgs *args) {
    const RpTensorView *x = &args->quantize.x, *y = &args->dst;
    const int64_t       n = x->ne[0];
    if (x->dtype != RP_F32 || y->dtype != RP_Q8_ACT || n % 32 != 0 || y->ne[0] != n ||
        rp_view_rows(x) != rp_view_rows(y))
        return rp_fail(RP_E_SHAPE,
                       "quantize: x %s [%lld], result %s [%lld]: f32 rows of whole blocks of 32 are wanted",
                       rp_dtype_name(x->dtype), (long long)n, rp_dtype_name(y->dtype), (long long)y->ne[0]);
    return RP_OK;
}

static inline RpStatus rp_check_get_rows(const RpOpArgs *args) {
    const RpTensorView *w = &args->get_rows.w, *ids = &args->get_rows.ids, *y = &args->dst;
    const bool given = rp_is_present(ids);
    if (w->dtype == RP_I32 || w->dtype == RP_Q8_ACT || (given && ids->dtype != RP_I32) || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "get_rows: table %s, ids %s, result %s: no kernel for this",
                       rp_dtype_name(w->dtype), rp_dtype_name(ids->dtype), rp_dtype_name(y->dtype));
    if (y->ne[0] != w->ne[0] || y->ne[1] != (given ? ids->ne[0] : w->ne[1]))
        return rp_fail(RP_E_SHAPE, "get_rows: table [%lld,%lld] and %lld ids for a result [%lld,%lld]",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)ids->ne[0], (long long)y->ne[0],
                       (long long)y->ne[1]);
    return RP_OK;
}

static inline RpStatus rp_check_combine(const RpOpArgs *args) {
    const RpTensorView *x = &args->combine.x, *w = &args->combine.weights, *y = &args->dst;
    if (x->dtype != RP_F32 || w->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "combine: x %s, weights %s, result %s: f32 is wanted",
                       rp_dtype_name(x->dtype), rp_dtype_name(w->dtype), rp_dtype_name(y->dtype));
    if (x->ne[0] != y->ne[0] || x->ne[2] != y->ne[1] || w->ne[0] != x->ne[1] || w->ne[1] != x->ne[2])
        return rp_fail(RP_E_SHAPE, "combine: x [%lld,%lld,%lld], weights [%lld,%lld], result [%lld,%lld]",
                       (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2], (long long)w->ne[0],
                       (long long)w->ne[1], (long long)y->ne[0], (long long)y->ne[1]);
    return RP_OK;
}

static inline RpStatus rp_check_top_k(const RpOpArgs *args) {
    const RpTensorView *x = &args->top_k.x, *y = &args->dst;
    const RpTopKParams *p = &args->params->top_k;
    if (x->dtype != RP_F32 || y->dtype != RP_I32)
        return rp_fail(RP_E_DTYPE, "top_k: source %s, result %s: f32 and i32 are wanted",
                       rp_dtype_name(x->dtype), rp_dtype_name(y->dtype));
    if (p->k < 1 || p->k > x->ne[0] || y->ne[0] != p->k || y->ne[1] != x->ne[1])
        return rp_fail(RP_E_SHAPE, "top_k: %d of source [%lld,%lld] for a result [%lld,%lld]", p->k,
                       (long long)x->ne[0], (long long)x->ne[1], (long long)y->ne[0], (long long)y->ne[1]);
    return RP_OK;
}

static inline RpStatus rp_check_route(const RpOpArgs *args) {
    const RpTensorView *probs = &args->route.probs, *ids = &args->route.ids, *y = &args->dst;
    if (probs->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "route: probabilities %s, result %s: f32 is wanted",
                       rp_dtype_name(probs->dtype), rp_dtype_name(y->dtype));
    RP_TRY(rp_check_ids("route", ids, y->ne[0], probs->ne[1]));
    return RP_OK;
}

static inline RpStatus rp_check_add_id(const RpOpArgs *args) {
    const RpTensorView *x = &args->add_id.x, *b = &args->add_id.b;
    RP_TRY(rp_check_unary("add_id", args));
    if (b->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "add_id: second source %s: f32 is wanted", rp_dtype_name(b->dtype));
    if (b->ne[0] != x->ne[0])
        return rp_fail(RP_E_SHAPE, "add_id: rows of %lld for rows of %lld", (long long)b->ne[0],
                       (long long)x->ne[0]);
    RP_TRY(rp_check_ids("add_id", &args->add_id.ids, x->ne[1], x->ne[2]));
    return RP_OK;
}

/* Checks the options of attention that need keys and values of f32. */
static inline RpStatus rp_check_attention_f32(const RpOpArgs *args) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k, *mask = &args->attention.mask;
    const bool          f32 = k->dtype == RP_F32, masked = rp_is_present(&args->attention.mask);
    if (!f32 && (masked || q->ne[3] != 1 || !rp_is_present(&args->attention.pos)))
        return rp_fail(RP_E_UNSUPPORTED, "attention: k %s: a mask, a batch and no positions need f32",
                       rp_dtype_name(k->dtype));
    if (f32 && args->dst.dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "attention: k f32, result %s: f32 is wanted",
                       rp_dtype_name(args->dst.dtype));
    if (masked && (mask->dtype != RP_F32 || mask->ne[0] != k->ne[1] || mask->ne[1] != q->ne[1]))
        return rp_fail(RP_E_SHAPE, "attention: mask %s [%lld,%lld] for %lld positions and %lld tokens",
                       rp_dtype_name(mask->dtype), (long long)mask->ne[0], (long long)mask->ne[1],
                       (long long)k->ne[1], (long long)q->ne[1]);
    return RP_OK;
}

static inline RpStatus rp_check_attention(const RpOpArgs *args) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k, *v = &args->attention.v,
                       *y = &args->dst, *pos = &args->attention.pos;
    const bool quantizes = y->dtype == RP_Q8_ACT;
    if (q->dtype != RP_F32 || (k->dtype != RP_F16 && k->dtype != RP_Q8_0 && k->dtype != RP_F32) ||
        v->dtype != k->dtype || (y->dtype != RP_F32 && !quantizes))
        return rp_fail(RP_E_DTYPE,
                       "attention: q %s, k %s, v %s: f32 q, and k and v both f16, q8_0 or f32 are wanted",
                       rp_dtype_name(q->dtype), rp_dtype_name(k->dtype), rp_dtype_name(v->dtype));
    if (k->dtype == RP_Q8_0 && k->ne[0] % 32 != 0)
        return rp_fail(RP_E_SHAPE, "attention: heads of %lld are no whole q8_0 blocks of 32",
                       (long long)k->ne[0]);
    if (q->ne[0] > RP_ATTENTION_MAX_DIM || k->ne[0] != q->ne[0] || v->ne[0] != q->ne[0] ||
        q->ne[2] % k->ne[2] != 0 || q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3] ||
        (rp_is_present(&args->attention.pos) && pos->ne[0] != q->ne[1]) ||
        (quantizes ? y->ne[0] != q->ne[0] * q->ne[2] || y->ne[1] != q->ne[1] || q->ne[0] % 32 != 0
                   : y->ne[1] != q->ne[2] || y->ne[2] != q->ne[1] || y->ne[3] != q->ne[3]))
        return rp_fail(RP_E_SHAPE, "attention: q [%lld,%lld,%lld], k [%lld,%lld,%lld] (heads of at most %d)",
                       (long long)q->ne[0], (long long)q->ne[1], (long long)q->ne[2], (long long)k->ne[0],
                       (long long)k->ne[1], (long long)k->ne[2], RP_ATTENTION_MAX_DIM);
    if (rp_is_present(&args->attention.sinks) && args->attention.sinks.ne[0] != q->ne[2])
        return rp_fail(RP_E_SHAPE, "attention: %lld sinks for %lld heads",
                       (long long)args->attention.sinks.ne[0], (long long)q->ne[2]);
    return rp_check_attention_f32(args);
}

static inline RpStatus rp_check_gelu(const RpOpArgs *args) {
    RP_TRY(rp_check_unary("gelu", args));
    const RpGeluKind kind = args->params->gelu.kind;
    if (kind != RP_GELU_TANH && kind != RP_GELU_ERF)
        return rp_fail(RP_E_ARG, "gelu: unknown kind %d", (int)kind);
    return RP_OK;
}

static inline RpStatus rp_check_swiglu_oai(const RpOpArgs *args) {
    RP_TRY(rp_check_repeat("swiglu_oai", args));
    if (args->swiglu_oai.gate.ne[0] != args->swiglu_oai.up.ne[0])
        return rp_fail(RP_E_SHAPE, "swiglu_oai: gate of %lld and up of %lld",
                       (long long)args->swiglu_oai.gate.ne[0], (long long)args->swiglu_oai.up.ne[0]);
    return RP_OK;
}

/* Weights float or block-quantised, x f32, or q8_act for quantised weights, result f32. */
static inline RpStatus rp_check_product(const char *op, const RpTensorView *w, const RpTensorView *x,
                                        const RpTensorView *y) {
    const bool quant = rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
    const bool types =
        (x->dtype == RP_F32 && (quant || rp_dtype_is_float(w->dtype))) || (x->dtype == RP_Q8_ACT && quant);
    if (types && y->dtype == RP_F32) return RP_OK;
    return rp_fail(RP_E_DTYPE, "%s: weights %s, x %s, result %s: no kernel for this", op,
                   rp_dtype_name(w->dtype), rp_dtype_name(x->dtype), rp_dtype_name(y->dtype));
}

static inline RpStatus rp_check_mul_mat(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x, *y = &args->dst;
    RP_TRY(rp_check_product("mul_mat", w, x, y));
    if (w->ne[0] != x->ne[0] || w->ne[1] != y->ne[0] || x->ne[1] != y->ne[1] || x->ne[2] % w->ne[2] != 0 ||
        x->ne[3] % w->ne[3] != 0)
        return rp_fail(RP_E_SHAPE,
                       "mul_mat: weights [%lld,%lld,%lld,%lld] and x [%lld,%lld,%lld,%lld] do not fit",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)w->ne[3],
                       (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2], (long long)x->ne[3]);
    return RP_OK;
}

static inline RpStatus rp_check_mul_mat_id(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat_id.w, *x = &args->mul_mat_id.x, *ids = &args->mul_mat_id.ids,
                       *y = &args->dst;
    RP_TRY(rp_check_product("mul_mat_id", w, x, y));
    if (w->ne[0] != x->ne[0] || w->ne[1] != y->ne[0] || x->ne[2] != y->ne[2] ||
        (x->ne[1] != 1 && x->ne[1] != y->ne[1]))
        return rp_fail(RP_E_SHAPE,
                       "mul_mat_id: weights [%lld,%lld,%lld] and x [%lld,%lld,%lld] do not fit a result "
                       "[%lld,%lld,%lld]",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)x->ne[0],
                       (long long)x->ne[1], (long long)x->ne[2], (long long)y->ne[0], (long long)y->ne[1],
                       (long long)y->ne[2]);
    return rp_check_ids("mul_mat_id", ids, y->ne[1], y->ne[2]);
}

/* Adjacent elements along dimension 0 or 1. */
static inline bool rp_is_matrix(const RpTensorView *v) {
    return v->dtype == RP_F32 && v->ne[3] == 1 && (v->nb[0] == sizeof(float) || v->nb[1] == sizeof(float)) &&
           (v->nb[0] | v->nb[1] | v->nb[2]) % sizeof(float) == 0;
}

static inline RpStatus rp_check_gemm(const RpOpArgs *args) {
    const RpTensorView *a = &args->gemm.a, *b = &args->gemm.b, *c = &args->gemm.c, *y = &args->dst;
    const bool          given = rp_is_present(c);
    if (!rp_is_matrix(a) || !rp_is_matrix(b) || (given && c->dtype != RP_F32) || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "gemm: a %s, b %s, result %s: f32 with adjacent rows or columns is wanted",
                       rp_dtype_name(a->dtype), rp_dtype_name(b->dtype), rp_dtype_name(y->dtype));
    if (y->nb[0] != sizeof(float) || (given && c->nb[0] != sizeof(float)))
        return rp_fail(RP_E_SHAPE, "gemm: c and the result need contiguous rows");
    bool fits = a->ne[0] == b->ne[1] && y->ne[0] == b->ne[0] && y->ne[1] == a->ne[1] &&
                a->ne[2] == b->ne[2] && y->ne[2] == a->ne[2] && y->ne[3] == 1;
    for (int i = 0; i < RP_MAX_DIMS && given; i++) fits = fits && c->ne[i] == y->ne[i];
    if (fits) return RP_OK;
    return rp_fail(RP_E_SHAPE,
                   "gemm: a [%lld,%lld,%lld] and b [%lld,%lld,%lld] do not fit a result [%lld,%lld,%lld]",
                   (long long)a->ne[0], (long long)a->ne[1], (long long)a->ne[2], (long long)b->ne[0],
                   (long long)b->ne[1], (long long)b->ne[2], (long long)y->ne[0], (long long)y->ne[1],
                   (long long)y->ne[2]);
}

/* ---- fused products of one token ---- */

/* The prologue (RpColumnParams): x is one row as long as those of w, f32 or q8_act. A q8_act x is final already. Only
 * quantised weights take a quantised x. The weight of the norm, if there is one, is f32 of the same length. */
static inline RpStatus rp_check_column(const char *op, const RpTensorView *w, const RpTensorView *x,
                                       const RpTensorView *norm, const RpColumnParams *c) {
    const bool quant = rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
    const bool act   = x->dtype == RP_Q8_ACT || c->round != 0; /* the product is of q8_act */
    if ((!quant && (!rp_dtype_is_float(w->dtype) || act)) || (x->dtype != RP_F32 && x->dtype != RP_Q8_ACT) ||
        (x->dtype == RP_Q8_ACT && (c->norm != 0 || c->round != 0)))
        return rp_fail(RP_E_DTYPE, "%s: weights %s, column %s%s%s: no kernel for this", op,
                       rp_dtype_name(w->dtype), rp_dtype_name(x->dtype), c->norm != 0 ? ", normalised" : "",
                       c->round != 0 ? ", quantised" : "");
    if (w->ne[0] != x->ne[0] || rp_view_rows(x) != 1 || (c->round != 0 && x->ne[0] % 32 != 0))
        return rp_fail(RP_E_SHAPE, "%s: weights [%lld,%lld,%lld] and column [%lld,%lld,%lld] do not fit", op,
                       (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)x->ne[0],
                       (long long)x->ne[1], (long long)x->ne[2]);
    if (norm->ne[0] > 0 && (norm->dtype != RP_F32 || norm->ne[0] != x->ne[0]))
        return rp_fail(RP_E_SHAPE, "%s: weight of the norm %s [%lld] for a column [%lld]", op,
                       rp_dtype_name(norm->dtype), (long long)norm->ne[0], (long long)x->ne[0]);
    return RP_OK;
}

/* An optional source `what`: absent, or f32 of n elements in any shape. */
static inline RpStatus rp_check_vector(const char *op, const char *what, const RpTensorView *v, int64_t n) {
    if (v->ne[0] <= 0 || (v->dtype == RP_F32 && rp_view_elems(v) == n)) return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %s %s [%lld,%lld], f32 of %lld is wanted", op, what,
                   rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1], (long long)n);
}

/* The result: dtype [n0, n1]. */
static inline RpStatus rp_check_result(const char *op, const RpTensorView *y, RpDtype dtype, int64_t n0,
                                       int64_t n1) {
    if (y->dtype == dtype && y->ne[0] == n0 && y->ne[1] == n1 && rp_view_rows(y) == n1) return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: result %s [%lld,%lld,%lld], %s [%lld,%lld] is wanted", op,
                   rp_dtype_name(y->dtype), (long long)y->ne[0], (long long)y->ne[1], (long long)y->ne[2],
                   rp_dtype_name(dtype), (long long)n0, (long long)n1);
}

static inline RpStatus rp_check_linear(const RpOpArgs *args) {
    const RpTensorView *w = &args->linear.w;
    RP_TRY(rp_check_column("linear", w, &args->linear.x, &args->linear.norm, &args->params->linear.column));
    RP_TRY(rp_check_vector("linear", "bias", &args->linear.bias, w->ne[1]));
    RP_TRY(rp_check_vector("linear", "residual", &args->linear.residual, w->ne[1]));
    RP_TRY(rp_check_vector("linear", "weight of the post-norm", &args->linear.post_norm, w->ne[1]));
    return rp_check_result("linear", &args->dst, RP_F32, w->ne[1], 1);
}

static inline RpStatus rp_check_gate_up(const RpOpArgs *args) {
    const RpTensorView   *w = &args->gate_up.gate, *up = &args->gate_up.up, *ids = &args->gate_up.ids;
    const RpGateUpParams *p = &args->params->gate_up;
    RP_TRY(rp_check_column("gate_up", w, &args->gate_up.x, &args->gate_up.norm, &p->column));
    if (up->dtype != w->dtype || up->ne[0] != w->ne[0] || up->ne[1] != w->ne[1] || up->ne[2] != w->ne[2] ||
        (p->dtype == RP_Q8_ACT && w->ne[1] % 32 != 0))
        return rp_fail(RP_E_SHAPE, "gate_up: gate %s [%lld,%lld,%lld] and up %s [%lld,%lld,%lld] do not fit",
                       rp_dtype_name(w->dtype), (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2],
                       rp_dtype_name(up->dtype), (long long)up->ne[0], (long long)up->ne[1],
                       (long long)up->ne[2]);
    if (rp_is_present(&args->gate_up.ids)) RP_TRY(rp_check_ids("gate_up", ids, args->dst.ne[1], 1));
    RP_TRY(rp_check_vector("gate_up", "bias of gate", &args->gate_up.gate_bias, w->ne[1] * w->ne[2]));
    RP_TRY(rp_check_vector("gate_up", "bias of up", &args->gate_up.up_bias, w->ne[1] * w->ne[2]));
    return rp_check_result("gate_up", &args->dst, p->dtype, w->ne[1],
                           rp_is_present(&args->gate_up.ids) ? ids->ne[0] : 1);
}

/* The sources of projection 0 (queries), 1 (keys) or 2 (values) of op qkv. */
typedef struct QkvSources {
    const RpTensorView *w, *bias;
    const RpTensorView *norm;  /* NULL for values */
    const RpTensorView *cache; /* NULL for queries */
} QkvSources;

static inline QkvSources rp_qkv_sources(const RpOpArgs *args, int proj) {
    const QkvSources q = {&args->qkv.wq, &args->qkv.bq, &args->qkv.q_norm, NULL},
                     k = {&args->qkv.wk, &args->qkv.bk, &args->qkv.k_norm, &args->qkv.k_cache},
                     v = {&args->qkv.wv, &args->qkv.bv, NULL, &args->qkv.v_cache};
    return proj == 0 ? q : proj == 1 ? k : v;
}

static inline RpStatus rp_check_qkv(const RpOpArgs *args) {
    static const char *const bias[] = {"bias of q", "bias of k", "bias of v"}, *const norm[] = {"norm of q",
                                                                                                "norm of k",
                                                                                                "norm of v"};
    const RpQkvParams *p = &args->params->qkv;
    const int64_t      d = p->head_dim;
    for (int i = 0; i < 3; i++) {
        const QkvSources s    = rp_qkv_sources(args, i);
        const int64_t    rows = s.w->ne[1];
        RP_TRY(rp_check_column("qkv", s.w, &args->qkv.x, &args->qkv.norm, &p->column));
        RP_TRY(rp_check_vector("qkv", bias[i], s.bias, rows));
        if (d < 1 || rows % d != 0)
            return rp_fail(RP_E_SHAPE, "qkv: %lld rows are no whole heads of %lld", (long long)rows,
                           (long long)d);
        if (s.norm != NULL)
            RP_TRY(rp_check_vector("qkv", norm[i], s.norm, p->norm == RP_HEAD_NORM_WHOLE ? rows : d));
        if (s.cache != NULL && (s.cache->ne[0] != rows ||
                                (s.cache->dtype != RP_F16 && (s.cache->dtype != RP_Q8_0 || d % 32 != 0))))
            return rp_fail(RP_E_SHAPE, "qkv: cache %s [%lld,%lld] for rows of %lld, heads of %lld",
                           rp_dtype_name(s.cache->dtype), (long long)s.cache->ne[0],
                           (long long)s.cache->ne[1], (long long)rows, (long long)d);
    }
    if (p->rope.n_dims < 2 || p->rope.n_dims > d || p->rope.n_dims > RP_ROPE_MAX_DIMS ||
        p->rope.n_dims % 2 != 0)
        return rp_fail(RP_E_SHAPE, "qkv: rotation of %d dimensions of heads of %lld (at most %d)",
                       p->rope.n_dims, (long long)d, RP_ROPE_MAX_DIMS);
    return rp_check_result("qkv", &args->dst, RP_F32, d, args->qkv.wq.ne[1] / d);
}

/* Rows of a router's result, i32 [k,rows]: ids, weights, and the words of a q8_act column of n elements if it stores one. */
static inline int64_t rp_router_rows(const RpRouterParams *p, int64_t n) {
    const int64_t k = p->top_k.k, words = p->quantize != 0 ? (int64_t)rp_row_bytes(RP_Q8_ACT, n) / 4 : 0;
    return 2 + (words + k - 1) / k;
}

static inline RpStatus rp_check_router(const RpOpArgs *args) {
    const RpTensorView   *w = &args->router.w;
    const RpRouterParams *p = &args->params->router;
    RP_TRY(rp_check_column("router", w, &args->router.x, &args->router.norm, &p->column));
    RP_TRY(rp_check_vector("router", "bias", &args->router.bias, w->ne[1]));
    RP_TRY(rp_check_vector("router", "selection bias", &args->router.select_bias, w->ne[1]));
    if (p->top_k.k < 1 || p->top_k.k > w->ne[1])
        return rp_fail(RP_E_SHAPE, "router: %d of %lld experts", p->top_k.k, (long long)w->ne[1]);
    if (p->quantize != 0 && (args->router.x.dtype != RP_F32 || p->column.round != 0 || w->ne[0] % 32 != 0))
        return rp_fail(
            RP_E_DTYPE,
            "router: only an f32 column of whole blocks of 32 can be quantised beside the product");
    return rp_check_result("router", &args->dst, RP_I32, p->top_k.k, rp_router_rows(p, w->ne[0]));
}

static inline RpStatus rp_check_experts_down(const RpOpArgs *args) {
    const RpTensorView *w = &args->experts_down.w, *x = &args->experts_down.x;
    RP_TRY(rp_check_product("experts_down", w, x, &args->dst));
    if (w->ne[0] != x->ne[0] || x->ne[2] != 1 || x->ne[3] != 1)
        return rp_fail(RP_E_SHAPE, "experts_down: weights [%lld,%lld,%lld] and x [%lld,%lld,%lld] do not fit",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)x->ne[0],
                       (long long)x->ne[1], (long long)x->ne[2]);
    RP_TRY(rp_check_ids("experts_down", &args->experts_down.ids, x->ne[1], 1));
    RP_TRY(rp_check_vector("experts_down", "weights of the experts", &args->experts_down.weights, x->ne[1]));
    RP_TRY(rp_check_vector("experts_down", "bias", &args->experts_down.bias, w->ne[1] * w->ne[2]));
    RP_TRY(rp_check_vector("experts_down", "residual", &args->experts_down.residual, w->ne[1]));
    return rp_check_result("experts_down", &args->dst, RP_F32, w->ne[1], 1);
}

#ifdef __cplusplus
}
#endif
#endif
