/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; 0 where the id is no expert.
 *
 * Of one token every worker takes the same share of the rows of each expert. Of many those of one expert are taken
 * together, so that its weights are read once; the sum of each element is that of mul_mat (I8). */
#include "fallback/experts.h"
#include "fallback/float_rows.h"
#include "fallback/fused.h"
#include "fallback/tiles.h"

#include <string.h>

static const char *column(const OpArgs *args, int64_t j, int64_t t) {
    const TensorView *x = &args->src[1];
    return (const char *)x->data + (size_t)(x->ne[1] > 1 ? j : 0) * x->nb[1] + (size_t)t * x->nb[2];
}

static float *result(const OpArgs *args, int64_t j, int64_t t) {
    const TensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)j * y->nb[1] + (size_t)t * y->nb[2]);
}

static const char *matrix(const OpArgs *args, int64_t expert) {
    return (const char *)args->src[0].data + (size_t)expert * args->src[0].nb[2];
}

typedef struct Share {
    int64_t first, end; /* rows */
} Share;

static Share share_of(const OpArgs *args, const KernelCtx *ctx) {
    const int64_t n = args->src[0].ne[1];
    return (Share){n * ctx->ith / ctx->nth, n * (ctx->ith + 1) / ctx->nth};
}

static void zero_where_no_expert(const OpArgs *args, Share share) {
    const TensorView *ids = &args->src[2];
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++)
            if (rp_expert(ids, j, t, args->src[0].ne[2]) < 0)
                memset(result(args, j, t) + share.first, 0,
                       (size_t)(share.end - share.first) * sizeof(float));
}

/* ---- block-quantised experts ---- */

static void one_token(const OpArgs *args, Share share) {
    const TensorView *w = &args->src[0], *ids = &args->src[2];
    for (int64_t j = 0; j < ids->ne[0]; j++) {
        const int32_t expert = rp_expert(ids, j, 0, w->ne[2]);
        if (expert < 0) continue;
        const DotColumn x = rp_dot_column(column(args, j, 0), w->ne[0]);
        rp_dot_kernels().gemv(w->dtype, matrix(args, expert) + (size_t)share.first * w->nb[1], w->nb[1],
                              share.end - share.first, w->ne[0], &x, result(args, j, 0) + share.first);
    }
}

/* What tokens chose, expert by expert: a worker's own lists. */
typedef struct Chosen {
    const char **x;
    float      **y;
    int64_t     *first; /* of n_expert + 1 */
    char        *rest;
} Chosen;

static size_t list_bytes(const OpArgs *args) {
    return rp_align_bytes((size_t)(args->src[2].ne[0] * args->src[2].ne[1]) * sizeof(void *));
}

static size_t first_bytes(const OpArgs *args) {
    return rp_align_bytes((size_t)(args->src[0].ne[2] + 2) * sizeof(int64_t));
}

static Chosen lists(const OpArgs *args, char *own) {
    return (Chosen){.x     = (const char **)(void *)own,
                    .y     = (float **)(void *)(own + list_bytes(args)),
                    .first = (int64_t *)(void *)(own + 2 * list_bytes(args)),
                    .rest  = own + 2 * list_bytes(args) + first_bytes(args)};
}

/* By counting: first[e + 1] is where the next of expert e goes, and in the end where those of e + 1 begin. */
static Chosen choose(const OpArgs *args, char *own) {
    const TensorView *ids      = &args->src[2];
    const int64_t     n_expert = args->src[0].ne[2];
    const Chosen      c        = lists(args, own);
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

static TileJob job_of_expert(const OpArgs *args, const KernelCtx *ctx, const Chosen *c, int64_t e) {
    const TensorView *w = &args->src[0];
    return (TileJob){.dtype  = w->dtype,
                     .n      = w->ne[0],
                     .n_rows = w->ne[1],
                     .n_cols = c->first[e + 1] - c->first[e],
                     .rows   = matrix(args, e),
                     .stride = w->nb[1],
                     .x      = c->x + c->first[e],
                     .y      = c->y + c->first[e],
                     .groups = (char *)ctx->shared +
                               (size_t)c->first[e] * rp_packed_column_bytes(w->dtype, w->ne[0]),
                     .local = c->rest};
}

static void many_tokens(const OpArgs *args, const KernelCtx *ctx) {
    const int64_t n_expert = args->src[0].ne[2];
    const Chosen  chosen   = ctx->phase == 0 ? choose(args, ctx->local) : lists(args, ctx->local);
    int64_t       all = 0, before = 0;
    for (int64_t e = 0; e < n_expert; e++) {
        const TileJob job = job_of_expert(args, ctx, &chosen, e);
        all += rp_tile_work(&job, ctx->phase);
    }
    for (int64_t e = 0; e < n_expert; e++) {
        const TileJob job = job_of_expert(args, ctx, &chosen, e);
        rp_tile_share(&job, ctx, before, all);
        before += rp_tile_work(&job, ctx->phase);
    }
}

/* ---- float experts ---- */

static void run_job(const OpArgs *args, FloatJob *job, int64_t expert, Share share) {
    const size_t stride = args->src[0].nb[1];
    rp_float_rows(job, matrix(args, expert) + (size_t)share.first * stride, stride, share.first,
                  share.end - share.first);
    job->n_cols = 0;
}

/* All tokens that chose this expert. */
static void float_expert(const OpArgs *args, int64_t expert, Share share) {
    const TensorView *w = &args->src[0], *ids = &args->src[2];
    FloatJob          job;
    rp_job_start(&job, w, true);
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            if (rp_expert(ids, j, t, w->ne[2]) != expert) continue;
            rp_job_add(&job, column(args, j, t), result(args, j, t), w->ne[0]);
            if (job.n_cols == RP_JOB_COLS) run_job(args, &job, expert, share);
        }
    if (job.n_cols > 0) run_job(args, &job, expert, share);
}

/* ---- */

CpuNeeds rp_needs_mul_mat_id(const OpArgs *args) {
    const TensorView *w = &args->src[0], *x = &args->src[1], *ids = &args->src[2];
    if (!rp_in_tiles(w, x) || ids->ne[1] == 1) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){
        .phases = 2,
        .shared = (size_t)(ids->ne[0] * ids->ne[1]) * rp_packed_column_bytes(w->dtype, w->ne[0]),
        .local    = 2 * list_bytes(args) + first_bytes(args) +
               (rp_tiles_need_panels(ids->ne[0] * ids->ne[1]) ? rp_panels_bytes(w->dtype, w->ne[0], w->ne[1])
                                                              : 0)};
}

RpStatus rp_cpu_mul_mat_id(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat_id(args));
    const TensorView *w = &args->src[0], *ids = &args->src[2];
    const bool        quantised = args->src[1].dtype == RP_Q8_ACT;
    const Share       share     = share_of(args, ctx);
    if (ctx->phase == 0) zero_where_no_expert(args, share);
    if (quantised && ids->ne[1] > 1)
        many_tokens(args, ctx);
    else if (quantised)
        one_token(args, share);
    for (int64_t e = 0; e < w->ne[2] && !quantised; e++) float_expert(args, e, share);
    return RP_OK;
}
