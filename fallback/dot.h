/* dot.h - unpacked weights times q8_act columns.
 *
 * The sum of one weight row and one column is defined lane by lane, so that every variant gives the same
 * bits. The elements that share a scale are a unit: 32 of them, or 16 in Q6_K. A row is taken in spans of four
 * units, the last one filled up with zeros. In a span, lane l of 16 holds the elements j of unit u = l / 4
 * with j % 16 / 4 == l % 4:
 *
 *     acc[l] = fma(scale[u] * x.scale[u], (float)(sum of (q - offset) * x.q of the lane), acc[l])
 *     low[u] = fma(min[u], x.sum[u], low[u])                        of types that have minima
 *
 * where x.scale[u] is that of unit u's block, and x.sum[u] the two sums of its 16s, added. The result is
 * tree(acc) + tree(low), where tree adds the upper half to the lower until one is left. */
#ifndef FALLBACK_DOT_H
#define FALLBACK_DOT_H

#include "fallback/quants.h"

enum {
    RP_LANES      = 16,
    RP_SPAN_UNITS = 4,
    RP_DOT_ROWS   = 4,
    RP_DOT_COLS   = 4,
    RP_PIECE      = 4096 /* elements of a row that are unpacked at a time: whole spans */
};

typedef struct DotColumn {
    const int8_t *q;
    const float  *scale, *sum;
} DotColumn;

/* A piece of one row or of RP_DOT_ROWS rows, span by span and in a span row by row. A unit of 32 is split:
 * a span's first 64 bytes are the first halves of its units, the other 64 the second halves. */
typedef struct DotRows {
    const QuantForm *form;
    int              n_rows; /* 1 or RP_DOT_ROWS */
    int64_t          n;
    _Alignas(64) uint8_t q[RP_DOT_ROWS * RP_PIECE];
    _Alignas(64) float scale[RP_DOT_ROWS * RP_PIECE / RP_GROUP];
    _Alignas(64) float min[RP_DOT_ROWS * RP_PIECE / RP_GROUP]; /* only of types that have minima */
} DotRows;

/* Partial sums of one column, so that long rows can be taken in pieces. */
typedef struct DotSums {
    _Alignas(64) float acc[RP_DOT_ROWS][RP_LANES];
    _Alignas(64) float low[RP_DOT_ROWS][RP_SPAN_UNITS];
} DotSums;

/* Row r, out->n elements from block memory. */
typedef void UnpackRow(RpDtype dtype, const char *blocks, int r, DotRows *out);

/* Adds the products of the rows and of the columns from element 0; n_cols is 1 to RP_DOT_COLS. The sums of the
 * first piece of a row start at 0. Only the last piece may end within a span. */
typedef void DotFunction(const DotRows *rows, const DotColumn *cols, int n_cols, bool first, DotSums *sums);

/* y[r] = tree(acc) + tree(low) of n_rows rows. */
typedef void DotResults(const DotSums *sums, int n_rows, float *y);

UnpackRow   rp_unpack_row_plain;
DotFunction rp_dot_plain;
DotResults  rp_dot_results_plain;
#if defined(__x86_64__)
UnpackRow   rp_unpack_row_avx512;
DotFunction rp_dot_avx2, rp_dot_avx512;
DotResults  rp_dot_results_avx2, rp_dot_results_avx512;
#endif

#if defined(__aarch64__)
UnpackRow   rp_unpack_row_neon;
DotFunction rp_dot_neon, rp_dot_neon_dotprod;
DotResults  rp_dot_results_neon;
#endif

/* Of the variant in use. */
typedef struct DotKernels {
    UnpackRow   *unpack;
    DotFunction *dot;
    DotResults  *results;
} DotKernels;

DotKernels rp_dot_kernels(void);

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
#if defined(__aarch64__)
GemvFunction *rp_gemv_neon(RpDtype dtype), *rp_gemv_neon_dotprod(RpDtype dtype);
#endif

#endif
