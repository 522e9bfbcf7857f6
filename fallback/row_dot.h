/* row_dot.h - one row of weights times many columns: what mul_mat and mul_mat_id have in common. */
#ifndef FALLBACK_ROW_DOT_H
#define FALLBACK_ROW_DOT_H

#include "fallback/dot.h"
#include "fallback/part.h"

enum { RP_JOB_COLS = 256 };

/* The columns; all rows of one matrix are then taken with them. */
typedef struct RowJob {
    RpDtype     weights, columns; /* columns: q8_act or f32 */
    int64_t     n;                /* elements of a row */
    int         n_cols;
    const char *x[RP_JOB_COLS];
    TileColumn  tile[RP_JOB_COLS]; /* the same, arranged */
    bool        arranged;
    float      *y[RP_JOB_COLS];
    int64_t     length[RP_JOB_COLS]; /* terms of each sum; n, or fewer with float weights */
    bool        whole;               /* every length is n */
} RowJob;

/* Fills in what needs it only: decoding has one column. */
static inline void rp_job_start(RowJob *job, const TensorView *w, const TensorView *x) {
    job->weights  = w->dtype;
    job->columns  = x->dtype;
    job->n        = w->ne[0];
    job->n_cols   = 0;
    job->arranged = false;
    job->whole    = true;
}

/* `arranged` is NULL for every column or for none. */
static inline void rp_job_add(RowJob *job, const char *x, const char *arranged, float *y, int64_t length) {
    const int c    = job->n_cols++;
    job->arranged  = arranged != NULL;
    job->x[c]      = x;
    job->y[c]      = y;
    job->length[c] = length;
    if (arranged != NULL) job->tile[c] = rp_tile_column(rp_quant_form(job->weights), job->n, arranged, y);
}

/* Many rows of x, q8_act, are arranged in a phase of their own, by all workers in KernelCtx.shared. */
bool     rp_arranges(const TensorView *w, const TensorView *x);
CpuNeeds rp_needs_arranged(const TensorView *w, const TensorView *x);
void     rp_arrange_columns(const TensorView *w, const TensorView *x, const KernelCtx *ctx);

/* NULL where the variant in use takes columns as they stand. */
const char *rp_arranged_column(const TensorView *w, const KernelCtx *ctx, int64_t row);

/* y[c][m] = row . x[c] for every column c but those where y[c] is NULL. */
void rp_row_dot(const RowJob *job, const char *row, int64_t m);

/* y[c][m + r] = row r . x[c], of n_rows rows that stand `stride` bytes apart: faster than one by one. */
void rp_rows_dot(const RowJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows);

/* A q8_act row of n elements from element k on. */
static inline DotColumn rp_dot_column(const char *x, int64_t n, int64_t k) {
    const float *scale = (const float *)(const void *)(x + n);
    return (DotColumn){
        .q = (const int8_t *)x + k, .scale = scale + k / 32, .sum = scale + n / 32 + k / RP_GROUP};
}

#endif
