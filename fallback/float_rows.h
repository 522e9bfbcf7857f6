/* float_rows.h - rows of weights, float or widened to float, times many float columns. */
#ifndef FALLBACK_FLOAT_ROWS_H
#define FALLBACK_FLOAT_ROWS_H

#include "fallback/float.h"

enum { RP_JOB_COLS = 256, RP_LANES = 16, RP_DOT_ROWS = 4, RP_DOT_COLS = 4 };

/* The columns; all rows of one matrix are then taken with them. */
typedef struct FloatJob {
    RpDtype     weights;
    int64_t     n; /* elements of a row */
    int         n_cols;
    const char *x[RP_JOB_COLS];
    float      *y[RP_JOB_COLS];
    int64_t     length[RP_JOB_COLS]; /* terms of each sum: n or fewer */
    bool        whole;               /* every length is n */
} FloatJob;

static inline void rp_job_start(FloatJob *job, const TensorView *w, bool whole) {
    job->weights = w->dtype;
    job->n       = w->ne[0];
    job->n_cols  = 0;
    job->whole   = whole;
}

static inline void rp_job_add(FloatJob *job, const char *x, float *y, int64_t length) {
    const int c    = job->n_cols++;
    job->x[c]      = x;
    job->y[c]      = y;
    job->length[c] = length;
}

/* y[c][m + r] = row r . x[c], of n_rows rows that stand `stride` bytes apart, for every column c but those where y[c]
 * is NULL. */
void rp_float_rows(const FloatJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows);

/* Float weights, n_rows rows (1 or RP_DOT_ROWS) and n_cols columns (1 to RP_DOT_COLS): acc[r][c][l] =
 * fma(w[r][i], x[c][i], acc[r][c][l]) for every i with i % 16 == l, in order. */
typedef void FloatDotFunction(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,
                              float (*acc)[RP_DOT_COLS][RP_LANES]);

/* y[c] = tree(acc[c]) of RP_DOT_COLS columns; acc is used up. */
typedef void FloatResults(float (*acc)[RP_LANES], float *y);

/* Of the variant in use. */
typedef struct FloatKernels {
    FloatDotFunction *dot;
    FloatResults     *results;
} FloatKernels;

FloatKernels rp_float_kernels(void);

#endif
