/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; 0 if the id is not in 0..experts-1
 *
 * One token: a GEMV per chosen expert, of which each worker takes the same range of rows. Several tokens: the
 * columns are sorted by expert, and each expert is a GEMM with its columns, so that its weights are read once. The
 * sum of each element is that of mul_mat (I8). The ids are data (I4): memory is sized for any choice. */
#include "fallback/experts.h"
#include "fallback/fused/fused.h"
#include "fallback/products/float_rows.h"
#include "fallback/products/tiles.h"

#include <string.h>

static const char *column(const RpOpArgs *args, int64_t j, int64_t t) {
    const RpTensorView *x = &args->mul_mat_id.x;
    return (const char *)x->data + (size_t)(x->ne[1] > 1 ? j : 0) * x->nb[1] + (size_t)t * x->nb[2];
}

static float *result(const RpOpArgs *args, int64_t j, int64_t t) {
    const RpTensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)j * y->nb[1] + (size_t)t * y->nb[2]);
}

static const char *matrix(const RpOpArgs *args, int64_t expert) {
    return (const char *)args->mul_mat_id.w.data + (size_t)expert * args->mul_mat_id.w.nb[2];
}

typedef struct RowRange {
    int64_t first, end;
} RowRange;

/* This worker's rows of every expert. */
static RowRange range_of(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView *w = &args->mul_mat_id.w;
    const int64_t       n = w->ne[1];
    return (RowRange){rp_whole_rows(w, n * ctx->ith / ctx->nth), rp_whole_rows(w, n * (ctx->ith + 1) / ctx->nth)};
}

static void zero_where_no_expert(const RpOpArgs *args, RowRange range) {
    const RpTensorView *ids = &args->mul_mat_id.ids;
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++)
            if (rp_expert(ids, j, t, args->mul_mat_id.w.ne[2]) < 0)
                memset(result(args, j, t) + range.first, 0, (size_t)(range.end - range.first) * sizeof(float));
}

/* ---- block-quantised experts ---- */

static void one_token(const RpOpArgs *args, RowRange range) {
    const RpTensorView *w = &args->mul_mat_id.w, *ids = &args->mul_mat_id.ids;
    for (int64_t j = 0; j < ids->ne[0]; j++) {
        const int32_t expert = rp_expert(ids, j, 0, w->ne[2]);
        if (expert < 0) continue;
        rp_gemv(w, matrix(args, expert) + (size_t)range.first * w->nb[1], range.end - range.first, column(args, j, 0),
                result(args, j, 0) + range.first);
    }
}

/* The columns and results of all (token, choice) pairs, sorted by expert: those of expert e are x[first[e]] to
 * x[first[e + 1] - 1]. Every worker makes the same lists in its local memory:
 *
 *     x[pairs], y[pairs], first[n_expert + 2], then panels */
typedef struct ExpertLists {
    const char **x;
    float      **y;
    int64_t     *first;
    char        *rest;
} ExpertLists;

static size_t list_bytes(const RpOpArgs *args) {
    return rp_align_bytes((size_t)(args->mul_mat_id.ids.ne[0] * args->mul_mat_id.ids.ne[1]) * sizeof(void *));
}

static size_t first_bytes(const RpOpArgs *args) {
    return rp_align_bytes((size_t)(args->mul_mat_id.w.ne[2] + 2) * sizeof(int64_t));
}

static ExpertLists lists(const RpOpArgs *args, char *local) {
    return (ExpertLists){.x     = (const char **)(void *)local,
                         .y     = (float **)(void *)(local + list_bytes(args)),
                         .first = (int64_t *)(void *)(local + 2 * list_bytes(args)),
                         .rest  = local + 2 * list_bytes(args) + first_bytes(args)};
}

/* Counting sort. Counts are kept one entry late, so that while the pairs are placed first[e + 1] is the next free
 * place of expert e, and afterwards the start of expert e + 1. Example, experts of the pairs 2 0 2:
 *
 *     index            0   1   2   3   4
 *     counts           0   0   1   0   2        expert e at first[e + 2]
 *     prefix sums      0   0   1   1   -        start of e at first[e + 1]
 *     pairs placed     0   1   1   3   -        start of e at first[e], end at first[e + 1] */
static ExpertLists sort_by_expert(const RpOpArgs *args, char *local) {
    const RpTensorView *ids      = &args->mul_mat_id.ids;
    const int64_t       n_expert = args->mul_mat_id.w.ne[2];
    const ExpertLists   c        = lists(args, local);
    memset(c.first, 0, first_bytes(args));
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            const int32_t e = rp_expert(ids, j, t, n_expert);
            if (e >= 0) c.first[e + 2]++;
        }
    for (int64_t e = 2; e <= n_expert; e++) c.first[e] += c.first[e - 1];
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            const int32_t e = rp_expert(ids, j, t, n_expert);
            if (e < 0) continue;
            const int64_t at = c.first[e + 1]++;
            c.x[at]          = column(args, j, t);
            c.y[at]          = result(args, j, t);
        }
    return c;
}

static TileWork work_of_expert(const RpOpArgs *args, const RpKernelCtx *ctx, const ExpertLists *c, int64_t e) {
    const RpTensorView *w = &args->mul_mat_id.w;
    return (TileWork){.dtype    = w->dtype,
                      .n        = w->ne[0],
                      .n_rows   = w->ne[1],
                      .n_cols   = c->first[e + 1] - c->first[e],
                      .rows     = matrix(args, e),
                      .stride   = w->nb[1],
                      .repacked = rp_is_repacked(w),
                      .x        = c->x + c->first[e],
                      .y        = c->y + c->first[e],
                      .groups = (char *)ctx->shared + (size_t)c->first[e] * rp_packed_column_bytes(w->dtype, w->ne[0]),
                      .local  = c->rest};
}

/* The work of all experts is one range of cost units (rp_tile_run), so that an expert with many tokens is shared by
 * several workers. */
static void many_tokens(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const int64_t     n_expert = args->mul_mat_id.w.ne[2];
    const ExpertLists chosen   = ctx->phase == 0 ? sort_by_expert(args, ctx->local) : lists(args, ctx->local);
    int64_t           all = 0, before = 0;
    for (int64_t e = 0; e < n_expert; e++) {
        const TileWork work = work_of_expert(args, ctx, &chosen, e);
        all += rp_tile_cost(&work, ctx->phase);
    }
    for (int64_t e = 0; e < n_expert; e++) {
        const TileWork work = work_of_expert(args, ctx, &chosen, e);
        rp_tile_run(&work, ctx, before, all);
        before += rp_tile_cost(&work, ctx->phase);
    }
}

/* ---- float experts ---- */

static void run_work(const RpOpArgs *args, FloatWork *work, int64_t expert, RowRange range) {
    const size_t stride = args->mul_mat_id.w.nb[1];
    rp_float_rows(work, matrix(args, expert) + (size_t)range.first * stride, stride, range.first,
                  range.end - range.first);
    work->n_cols = 0;
}

/* All columns of this expert, up to RP_FLOAT_WORK_COLS at a time. */
static void float_expert(const RpOpArgs *args, int64_t expert, RowRange range) {
    const RpTensorView *w = &args->mul_mat_id.w, *ids = &args->mul_mat_id.ids;
    FloatWork           work;
    rp_float_work_start(&work, w, true);
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            if (rp_expert(ids, j, t, w->ne[2]) != expert) continue;
            rp_float_work_add(&work, column(args, j, t), result(args, j, t), w->ne[0]);
            if (work.n_cols == RP_FLOAT_WORK_COLS) run_work(args, &work, expert, range);
        }
    if (work.n_cols > 0) run_work(args, &work, expert, range);
}

/* ---- op ---- */

CpuNeeds rp_needs_mul_mat_id(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat_id.w, *x = &args->mul_mat_id.x, *ids = &args->mul_mat_id.ids;
    if (!rp_is_quantized_product(w, x) || ids->ne[1] == 1) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){
        .phases = 2,
        .shared = (size_t)(ids->ne[0] * ids->ne[1]) * rp_packed_column_bytes(w->dtype, w->ne[0]),
        .local  = 2 * list_bytes(args) + first_bytes(args) +
                 (rp_tiles_need_panels(ids->ne[0] * ids->ne[1]) ? rp_panels_bytes(w->dtype, w->ne[0], w->ne[1]) : 0)};
}

RpStatus rp_cpu_mul_mat_id(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id, args));
    const RpTensorView *w = &args->mul_mat_id.w, *ids = &args->mul_mat_id.ids;
    const bool          quantized = args->mul_mat_id.x.dtype == RP_Q8_ACT;
    const RowRange      range     = range_of(args, ctx);
    if (ctx->phase == 0) zero_where_no_expert(args, range);
    if (quantized && ids->ne[1] > 1)
        many_tokens(args, ctx);
    else if (quantized)
        one_token(args, range);
    for (int64_t e = 0; e < w->ne[2] && !quantized; e++) float_expert(args, e, range);
    return RP_OK;
}
