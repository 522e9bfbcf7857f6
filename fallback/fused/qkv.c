/* Queries, keys and values of one token in one op, or its queries alone, c = column(x):
 *
 *     y[:,h]            = rope(norm(wq c + bq))
 *     K cache[:,pos,h]  = rope(norm(wk c + bk))      caches [d,n_ctx,heads]
 *     V cache[:,pos,h]  = wv c + bv                  with `rows` row rows[0] in place of pos; with `value_norm`
 *                                                    norm(wv c + bv), without weights
 *
 * With `gates` each query head is followed by its gate in the rows of wq. The result has the queries, then the gates.
 *
 * The heads of q, k and v are numbered one after the other, and workers take whole heads: a head is normalised, rotated
 * and stored by the worker that computed it, without a barrier. A norm over all heads (RP_HEAD_NORM_WHOLE) needs all
 * products first. Then phase 1 finishes q and k, one worker each, and V is stored in phase 0.
 *
 *     shared: key rows f32 | value rows f32; query rows are computed in the result
 *     local: column (rp_column_bytes) */
#include "ops/fused/qkv.h"
#include "fallback/fused/fused.h"

enum { Q, K, V, N_PROJECTIONS }; /* as rp_qkv_sources counts them */

/* Heads [first, end) of q, k or v. */
typedef struct Heads {
    QkvSources from;
    int64_t    first, end, all;
    float     *rows; /* f32 [d,all]: the results of all heads, head after head */
} Heads;

CpuNeeds rp_needs_qkv(const RpOpArgs *args) {
    return (CpuNeeds){.phases = args->params->qkv.norm == RP_HEAD_NORM_WHOLE ? 2 : 1,
                      .shared = rp_align_floats(args->qkv.wk.ne[1]) + rp_align_floats(args->qkv.wv.ne[1]),
                      .local  = rp_column_bytes(args->qkv.x.ne[0])};
}

/* All heads of q, k or v. */
static Heads heads_of(const RpOpArgs *args, const RpKernelCtx *ctx, int proj) {
    const int64_t d     = args->params->qkv.head_dim;
    char         *keys  = ctx->shared;
    float *const  to[3] = {args->dst.data, ctx->shared, (float *)(void *)(keys + rp_align_floats(args->qkv.wk.ne[1]))};
    const QkvSources from = rp_qkv_sources(args, proj);
    return (Heads){.from = from, .end = from.w->ne[1] / d, .all = from.w->ne[1] / d, .rows = to[proj]};
}

/* In place: each head as a row of d, or all heads as one row. */
static RpStatus norm(const RpOpArgs *args, const Heads *h) {
    const RpQkvParams *p     = &args->params->qkv;
    const bool         whole = p->norm == RP_HEAD_NORM_WHOLE;
    const int64_t      n = p->head_dim, rows = whole ? 1 : h->end - h->first;
    float             *x    = h->rows + h->first * n;
    const RpOpParams   eps  = {.rms_norm = {.eps = p->norm_eps}};
    const RpTensorView view = rp_floats(x, whole ? n * h->all : n, rows);
    const RpTensorView none = {.data = NULL};
    return rp_run_alone(rp_cpu_rms_norm, &(RpOpArgs){
                                             .dst    = view,
                                             .src    = {view, h->from.norm != NULL ? *h->from.norm : none},
                                             .params = &eps,
    });
}

static RpStatus rotate(const RpOpArgs *args, const Heads *h) {
    const RpQkvParams *p    = &args->params->qkv;
    const RpOpParams   rope = {.rope = p->rope};
    const RpTensorView view = rp_floats(h->rows + h->first * p->head_dim, p->head_dim, h->end - h->first);
    return rp_run_alone(rp_cpu_rope, &(RpOpArgs){
                                         .dst    = view,
                                         .src    = {view, args->qkv.pos, args->qkv.factors},
                                         .params = &rope,
    });
}

/* Into a row of each head, from a view of the cache that has these heads only. */
static RpStatus store(const RpOpArgs *args, const Heads *h) {
    const int64_t d = args->params->qkv.head_dim, n = h->end - h->first;
    RpTensorView  cache   = *h->from.cache;
    cache.data            = (char *)cache.data + (size_t)h->first * cache.nb[2];
    cache.ne[2]           = n;
    const RpTensorView x  = rp_view_contiguous(RP_F32, (int64_t[]){d, 1, n, 1}, h->rows + h->first * d);
    const RpTensorView at = rp_is_present(&args->qkv.rows) ? args->qkv.rows : args->qkv.pos;
    return rp_run_alone(rp_cpu_copy, &(RpOpArgs){
                                         .dst = cache, .src = {x, cache, at}
    });
}

static bool has_gates(const RpOpArgs *args, const Heads *h) {
    return h->from.cache == NULL && args->params->qkv.gates != 0;
}

/* The heads among h that are normalised, rotated or stored, by their place in the result. With gates these are the
 * queries: head 2*i of wq has place i, its gate all/2 + i. */
static Heads without_gates(const RpOpArgs *args, const Heads *h) {
    Heads q = *h;
    if (has_gates(args, h)) q.first = (h->first + 1) / 2, q.end = (h->end + 1) / 2, q.all = h->all / 2;
    return q;
}

/* The epilogue of heads whose products are complete. */
static RpStatus finish(const RpOpArgs *args, const Heads *all) {
    const Heads of = without_gates(args, all), *h = &of;
    if (h->first == h->end) return RP_OK;
    const RpQkvParams *p = &args->params->qkv;
    if (h->from.norm != NULL ? p->norm != RP_HEAD_NORM_NONE : p->value_norm != 0) RP_TRY(norm(args, h));
    if (h->from.norm != NULL && args->params->qkv.rope.n_dims > 0) RP_TRY(rotate(args, h));
    return h->from.cache != NULL ? store(args, h) : RP_OK;
}

/* Rows [first, first + n) of the matrix, to y. */
static RpStatus product(const Heads *h, const RpTensorView *x, int64_t first, int64_t n, float *y) {
    RP_TRY(rp_mul_mat_rows(h->from.w, first, n, x, y));
    rp_add_range(y, h->from.bias, first, n);
    return RP_OK;
}

static RpStatus products(const RpOpArgs *args, const Heads *h, const RpTensorView *x) {
    const int64_t d = args->params->qkv.head_dim;
    if (!has_gates(args, h)) return product(h, x, h->first * d, (h->end - h->first) * d, h->rows + h->first * d);
    for (int64_t i = h->first; i < h->end; i++)
        RP_TRY(product(h, x, i * d, d, h->rows + (i % 2 * (h->all / 2) + i / 2) * d));
    return RP_OK;
}

/* Phase 0: this worker's heads, [from, to) of all heads of q, k and v. Example: 4 query heads and 2 heads each of k and
 * v are numbered q 0..3, k 4..5, v 6..7. The second of three workers takes [2, 5): two heads of q and one of k. */
static RpStatus phase_0_heads(const RpOpArgs *args, RpKernelCtx *ctx) {
    const bool whole = args->params->qkv.norm == RP_HEAD_NORM_WHOLE;
    int64_t    all = 0, start = 0;
    for (int i = 0; i < N_PROJECTIONS; i++) all += heads_of(args, ctx, i).all;
    const int64_t from = all * ctx->ith / ctx->nth, to = all * (ctx->ith + 1) / ctx->nth;
    RpTensorView  x;
    if (from == to) return RP_OK;
    RP_TRY(rp_column(&args->qkv.x, &args->qkv.norm, &args->params->qkv.column, ctx->local, &x));
    for (int i = 0; i < N_PROJECTIONS; i++) {
        Heads h = heads_of(args, ctx, i);
        h.first = rp_clamped(from - start, 0, h.all);
        h.end   = rp_clamped(to - start, 0, h.all);
        start += h.all;
        if (h.first == h.end) continue;
        RP_TRY(products(args, &h, &x));
        if (!whole || i == V) RP_TRY(finish(args, &h));
    }
    return RP_OK;
}

RpStatus rp_cpu_qkv(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(qkv, args));
    if (ctx->phase == 0) return phase_0_heads(args, ctx);
    for (int i = Q; i <= K; i++) {
        const Heads h = heads_of(args, ctx, i);
        if (i % ctx->nth == ctx->ith) RP_TRY(finish(args, &h));
    }
    return RP_OK;
}
