/* dot.h - unpacked weights times q8_act columns.
 *
 * The sum of one weight row and one column is defined lane by lane, so that every variant gives the same
 * bits. Elements come in spans of 64; in a span, lane l of 16 holds elements 4l to 4l+3:
 *
 *     acc[l] = fma(scale[group of l] * x.scale[block of l], (float)(integer dot of the four), acc[l])
 *     low[g] = fma(min[g], x.sum[g], low[g])                   over the span's four groups of 16
 *
 * and the result is tree(acc) + tree(low), where tree adds the upper half to the lower until one is left. */
#ifndef FALLBACK_DOT_H
#define FALLBACK_DOT_H

#include "fallback/quants.h"

enum { RP_SPAN = 64, RP_LANES = 16, RP_SPAN_GROUPS = RP_SPAN / RP_GROUP, RP_DOT_COLS = 4 };

typedef struct DotColumn {
    const int8_t *q;
    const float  *scale, *sum;
} DotColumn;

/* Partial sums of one row and one column, so that a long row can be taken in pieces. */
typedef struct DotSums {
    float acc[RP_LANES];
    float low[RP_SPAN_GROUPS];
} DotSums;

/* Adds n elements, a multiple of 32, from element 0 of q and of the columns; n_cols is 1 to RP_DOT_COLS. Only
 * the last piece of a row may have n % 64 != 0. */
typedef void DotFunction(const uint8_t *q, const float *scale, const float *min, int64_t n,
                         const DotColumn *cols, int n_cols, DotSums *sums);

/* y[c] = tree(acc) + tree(low) of n_cols sums. */
typedef void DotResults(const DotSums *sums, int n_cols, float *y);

DotFunction rp_dot_plain;
DotResults  rp_dot_results_plain;
#if defined(__x86_64__)
DotFunction rp_dot_avx2, rp_dot_avx512;
DotResults  rp_dot_results_avx2;
#endif

/* Of the variant in use. */
DotFunction *rp_dot_function(void);
DotResults  *rp_dot_results_function(void);

/* Float weights: acc[c][l] = fma(w[i], x[c][i], acc[c][l]) for every i with i % 16 == l, in order; n_cols is
 * 1 to RP_DOT_COLS. */
typedef void FloatDotFunction(const float *w, const float *const *x, int64_t n, int n_cols,
                              float (*acc)[RP_LANES]);

/* Of the variant in use. */
FloatDotFunction *rp_float_dot_function(void);

/* y[m] = row m times the column, for rows of n elements that stand `stride` bytes apart. */
typedef void GemvFunction(const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                          float *y);

/* Of the variant in use; NULL where it has none and the row is to be unpacked. */
GemvFunction *rp_gemv_function(RpDtype dtype);

#if defined(__x86_64__)
GemvFunction *rp_gemv_avx512(RpDtype dtype);
#endif

#endif
