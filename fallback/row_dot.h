/* row_dot.h - one row of weights times many columns: what mul_mat and mul_mat_id have in common. */
#ifndef FALLBACK_ROW_DOT_H
#define FALLBACK_ROW_DOT_H

#include "fallback/dot.h"

enum { RP_JOB_COLS = 256 };

/* The columns; all rows of one matrix are then taken with them. */
typedef struct RowJob {
    RpDtype     weights, columns; /* columns: q8_act or f32 */
    int64_t     n;                /* elements of a row */
    int         n_cols;
    const char *x[RP_JOB_COLS];
    float      *y[RP_JOB_COLS];
    int64_t     length[RP_JOB_COLS]; /* terms of each sum; n, or fewer with float weights */
    bool        whole;               /* every length is n */
} RowJob;

static inline void rp_job_add(RowJob *job, const char *x, float *y, int64_t length) {
    job->x[job->n_cols]      = x;
    job->y[job->n_cols]      = y;
    job->length[job->n_cols] = length;
    job->n_cols++;
}

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
