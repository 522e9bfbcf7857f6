/* float_rows.h - products of weight rows and f32 columns in f32. Weights of other types are converted slice by slice,
 * unless they are of a custom type that has its own dot product.
 *
 * A sum has 16 lanes: element i is added to lane i % 16 by fma, in order of i, and the lanes are reduced pairwise,
 * upper half to lower half (trees_avx512.h). All variants keep this order, so they give the same bits (I8). */
#ifndef FALLBACK_PRODUCTS_FLOAT_ROWS_H
#define FALLBACK_PRODUCTS_FLOAT_ROWS_H

#include "fallback/simd/float.h"

/* Columns of one FloatWork; lanes of a sum; rows and columns of the register-blocked micro-kernel. */
enum { RP_FLOAT_WORK_COLS = 256, RP_LANES = 16, RP_DOT_ROWS = 4, RP_DOT_COLS = 4 };

/* The columns that rows of one matrix are multiplied by. Start, add up to RP_FLOAT_WORK_COLS columns, then call
 * rp_float_rows for any ranges of rows. */
typedef struct FloatWork {
    RpDtype     weights;
    int64_t     n; /* elements of a row */
    int         n_cols;
    const char *x[RP_FLOAT_WORK_COLS];
    float      *y[RP_FLOAT_WORK_COLS];      /* NULL: column is skipped */
    int64_t     length[RP_FLOAT_WORK_COLS]; /* terms of each sum: n or fewer */
    bool        whole;                      /* every length is n */
} FloatWork;

static inline void rp_float_work_start(FloatWork *work, const RpTensorView *w, bool whole) {
    work->weights = w->dtype;
    work->n       = w->ne[0];
    work->n_cols  = 0;
    work->whole   = whole;
}

static inline void rp_float_work_add(FloatWork *work, const char *x, float *y, int64_t length) {
    const int c     = work->n_cols++;
    work->x[c]      = x;
    work->y[c]      = y;
    work->length[c] = length;
}

/* y[c][m + r] = row r . x[c] for n_rows rows, `stride` bytes apart, and every column c whose y[c] is not NULL. */
void rp_float_rows(const FloatWork *work, const char *rows, size_t stride, int64_t m, int64_t n_rows);

/* Micro-kernel: acc[r][c][i % 16] = fma(w[r][i], x[c][i], acc[r][c][i % 16]) for i = 0, 1, ... n - 1.
 * n_rows is 1 or RP_DOT_ROWS, n_cols 1 to RP_DOT_COLS. */
typedef void FloatDotFunction(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,
                              float (*acc)[RP_DOT_COLS][RP_LANES]);

/* y[c] = the sum of the lanes of acc[c], for RP_DOT_COLS columns. Overwrites acc. */
typedef void FloatReduce(float (*acc)[RP_LANES], float *y);

/* y[c][r] = w[r] . x[c] for RP_DOT_ROWS rows and RP_DOT_COLS columns, with the sums of dot and reduce. */
typedef void FloatTile(const float *const *w, const float *const *x, int64_t n, float *const *y);

typedef struct FloatKernels {
    FloatDotFunction *dot;
    FloatReduce      *reduce;
    FloatTile        *tile; /* or NULL */
} FloatKernels;

/* The kernels of the instruction set in use (rp_cpu_isa). */
FloatKernels rp_float_kernels(void);

/* Rows of n elements, `stride` bytes apart, times one column (gemv_float.c). */
typedef struct FloatColumn {
    const char  *rows;
    size_t       stride;
    int64_t      n;
    const float *x;
    float       *y;
} FloatColumn;

/* y[r] = row r . x for whole groups of RP_DOT_ROWS of n_rows rows; returns how many rows that is: 0 without vectors and
 * for types other than f32, f16 and bf16. */
int64_t rp_gemv_float(RpDtype type, const FloatColumn *column, int64_t n_rows);

#endif
