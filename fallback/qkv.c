/* Queries, keys and values of one token: products, norms, rotation, and the store of keys and values. Workers
 * take whole heads. A norm over all heads needs them first: it, what follows it, is a second phase. */
#include "fallback/fused.h"

enum { Q, K, V, PARTS };

/* Heads [first, end) of one of the three, and where the rows of all its heads are. */
typedef struct Heads {
    int     part;
    int64_t first, end, all;
    float  *rows;
} Heads;

CpuNeeds rp_needs_qkv(const OpArgs *args) {
    return (CpuNeeds){.phases = args->params->qkv.norm == RP_HEAD_NORM_WHOLE ? 2 : 1,
                      .shared = rp_align_floats(args->src[K].ne[1]) + rp_align_floats(args->src[V].ne[1]),
                      .local    = rp_column_bytes(args->src[3].ne[0])};
}

static Heads heads_of(const OpArgs *args, const KernelCtx *ctx, int part) {
    const int64_t d     = args->params->qkv.head_dim;
    char         *keys  = ctx->shared;
    float *const  to[3] = {args->dst.data, ctx->shared,
                           (float *)(void *)(keys + rp_align_floats(args->src[K].ne[1]))};
    return (Heads){
        .part = part, .end = args->src[part].ne[1] / d, .all = args->src[part].ne[1] / d, .rows = to[part]};
}

static RpStatus norm(const OpArgs *args, const Heads *h) {
    const QkvParams *p     = &args->params->qkv;
    const bool       whole = p->norm == RP_HEAD_NORM_WHOLE;
    const int64_t    n = p->head_dim, rows = whole ? 1 : h->end - h->first;
    float           *x    = h->rows + h->first * n;
    const OpParams   eps  = {.rms_norm = {.eps = p->norm_eps}};
    const TensorView view = rp_floats(x, whole ? n * h->all : n, rows);
    return rp_run_alone(rp_cpu_rms_norm, &(OpArgs){
                                        .dst = view, .src = {view, args->src[11 + h->part]},
                                             .params = &eps
    });
}

static RpStatus turn(const OpArgs *args, const Heads *h) {
    const QkvParams *p    = &args->params->qkv;
    const OpParams   rope = {.rope = p->rope};
    const TensorView view = rp_floats(h->rows + h->first * p->head_dim, p->head_dim, h->end - h->first);
    return rp_run_alone(rp_cpu_rope,
                   &(OpArgs){
                       .dst = view, .src = {view, args->src[4], args->src[13]},
                            .params = &rope
    });
}

static RpStatus store(const OpArgs *args, const Heads *h) {
    const int64_t d = args->params->qkv.head_dim, n = (h->end - h->first) * d;
    TensorView    cache = args->src[h->part == K ? 5 : 6];
    cache.data          = (char *)cache.data + rp_row_bytes(cache.dtype, h->first * d);
    cache.ne[0]         = n;
    const TensorView x  = rp_floats(h->rows + h->first * d, n, 1);
    return rp_run_alone(rp_cpu_copy, &(OpArgs){
                                    .dst = cache, .src = {x, cache, args->src[4]}
    });
}

static RpStatus finish(const OpArgs *args, const Heads *h) {
    if (h->part != V && args->params->qkv.norm != RP_HEAD_NORM_NONE) RP_TRY(norm(args, h));
    if (h->part != V) RP_TRY(turn(args, h));
    return h->part != Q ? store(args, h) : RP_OK;
}

static RpStatus products(const OpArgs *args, const Heads *h, const TensorView *x) {
    const int64_t d = args->params->qkv.head_dim, first = h->first * d, n = (h->end - h->first) * d;
    RP_TRY(rp_rows(&args->src[h->part], first, n, x, h->rows + first));
    rp_add_range(h->rows + first, &args->src[8 + h->part], first, n);
    return RP_OK;
}

static int64_t clamped(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* This worker's share of all heads, counted through queries, keys and values. */
static RpStatus own_heads(const OpArgs *args, KernelCtx *ctx) {
    const bool whole = args->params->qkv.norm == RP_HEAD_NORM_WHOLE;
    int64_t    all = 0, start = 0;
    for (int i = 0; i < PARTS; i++) all += heads_of(args, ctx, i).all;
    const int64_t from = all * ctx->ith / ctx->nth, to = all * (ctx->ith + 1) / ctx->nth;
    TensorView    x;
    if (from == to) return RP_OK;
    RP_TRY(rp_column(&args->src[3], &args->src[7], &args->params->qkv.column, ctx->local, &x));
    for (int i = 0; i < PARTS; i++) {
        Heads h = heads_of(args, ctx, i);
        h.first = clamped(from - start, 0, h.all);
        h.end   = clamped(to - start, 0, h.all);
        start += h.all;
        if (h.first == h.end) continue;
        RP_TRY(products(args, &h, &x));
        if (!whole || i == V) RP_TRY(finish(args, &h));
    }
    return RP_OK;
}

RpStatus rp_cpu_qkv(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_qkv(args));
    if (ctx->phase == 0) return own_heads(args, ctx);
    for (int i = Q; i <= K; i++) {
        const Heads h = heads_of(args, ctx, i);
        if (i % ctx->nth == ctx->ith) RP_TRY(finish(args, &h));
    }
    return RP_OK;
}
