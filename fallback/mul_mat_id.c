/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; 0 where the id is no expert.
 *
 * Every worker takes the same share of the rows of each expert. Of many tokens those of one expert are taken
 * together, so that its weights are read once; the sum of each element is that of mul_mat (I8). */
#include "fallback/experts.h"
#include "fallback/row_dot.h"

#include <string.h>

static const char *column(const OpArgs *args, int64_t j, int64_t t) {
    const TensorView *x = &args->src[1];
    return (const char *)x->data + (size_t)(x->ne[1] > 1 ? j : 0) * x->nb[1] + (size_t)t * x->nb[2];
}

static float *result(const OpArgs *args, int64_t j, int64_t t) {
    const TensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)j * y->nb[1] + (size_t)t * y->nb[2]);
}

/* One token's items are columns of different experts. */
static bool arranges(const OpArgs *args) {
    return rp_arranges(&args->src[0], &args->src[1]) && args->src[2].ne[1] > 1;
}

typedef struct Share {
    int64_t first, end; /* rows */
} Share;

static void run_job(const OpArgs *args, RowJob *job, int64_t expert, Share share) {
    const TensorView *w      = &args->src[0];
    const char       *matrix = (const char *)w->data + (size_t)expert * w->nb[2];
    rp_rows_dot(job, matrix + (size_t)share.first * w->nb[1], w->nb[1], share.first, share.end - share.first);
    job->n_cols = 0;
}

/* All tokens that chose this expert. */
static void one_expert(const OpArgs *args, const KernelCtx *ctx, int64_t expert, Share share) {
    const TensorView *w = &args->src[0], *x = &args->src[1], *ids = &args->src[2];
    RowJob            job;
    rp_job_start(&job, w, x);
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            if (rp_expert(ids, j, t, w->ne[2]) != expert) continue;
            rp_job_add(&job, column(args, j, t),
                       arranges(args) ? rp_arranged_column(w, ctx, (x->ne[1] > 1 ? j : 0) + x->ne[1] * t)
                                      : NULL,
                       result(args, j, t), w->ne[0]);
            if (job.n_cols == RP_JOB_COLS) run_job(args, &job, expert, share);
        }
    if (job.n_cols > 0) run_job(args, &job, expert, share);
}

static void zero_where_no_expert(const OpArgs *args, Share share) {
    const TensorView *ids = &args->src[2];
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t j = 0; j < ids->ne[0]; j++)
            if (rp_expert(ids, j, t, args->src[0].ne[2]) < 0)
                memset(result(args, j, t) + share.first, 0,
                       (size_t)(share.end - share.first) * sizeof(float));
}

CpuNeeds rp_needs_mul_mat_id(const OpArgs *args) {
    return arranges(args) ? rp_needs_arranged(&args->src[0], &args->src[1]) : (CpuNeeds){.phases = 1};
}

RpStatus rp_cpu_mul_mat_id(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat_id(args));
    const TensorView *w = &args->src[0], *ids = &args->src[2];
    if (arranges(args) && ctx->phase == 0) {
        rp_arrange_columns(w, &args->src[1], ctx);
        return RP_OK;
    }
    const Share share = {w->ne[1] * ctx->ith / ctx->nth, w->ne[1] * (ctx->ith + 1) / ctx->nth};
    zero_where_no_expert(args, share);
    if (ids->ne[1] == 1) {
        for (int64_t j = 0; j < ids->ne[0]; j++) {
            const int32_t expert = rp_expert(ids, j, 0, w->ne[2]);
            if (expert < 0) continue;
            RowJob job;
            rp_job_start(&job, w, &args->src[1]);
            rp_job_add(&job, column(args, j, 0), NULL, result(args, j, 0), w->ne[0]);
            run_job(args, &job, expert, share);
        }
        return RP_OK;
    }
    for (int64_t e = 0; e < w->ne[2]; e++) one_expert(args, ctx, e, share);
    return RP_OK;
}
