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

/* A column as the tiles of a variant take it, made once for all rows of a matrix. Of each span: q as in DotRows,
 * the scale of each lane, and, of weights with an offset, what that adds to each lane; `sum` has four a span, of
 * weights with minima. */
typedef struct TileColumn {
    const char  *spans;
    const float *sum;
    float       *y;
} TileColumn;

static inline int64_t rp_spans(const QuantForm *form, int64_t n) {
    const int64_t size = RP_SPAN_UNITS * form->unit;
    return (n + size - 1) / size;
}

static inline size_t rp_tile_span_bytes(const QuantForm *form) {
    return (size_t)(RP_SPAN_UNITS * form->unit) + (form->offset > 0 ? 2u : 1u) * RP_LANES * sizeof(float);
}

/* Of a column of n elements, rounded up to a multiple of 64. */
static inline size_t rp_tile_column_bytes(const QuantForm *form, int64_t n) {
    const size_t n_spans = (size_t)rp_spans(form, n), sums = n_spans * RP_SPAN_UNITS * sizeof(float);
    return n_spans * rp_tile_span_bytes(form) + (form->has_min ? (sums + 63) / 64 * 64 : 0);
}

static inline TileColumn rp_tile_column(const QuantForm *form, int64_t n, const char *arranged, float *y) {
    const char *sum = arranged + (size_t)rp_spans(form, n) * rp_tile_span_bytes(form);
    return (TileColumn){arranged, (const float *)(const void *)sum, y};
}

/* A piece of one row or of RP_DOT_ROWS rows, span by span and in a span row by row. A unit of 32 is split:
 * a span's first 64 bytes are the first halves of its units, the other 64 the second halves. */
typedef struct DotRows {
    const QuantForm *form;
    int              n_rows;    /* 1 or RP_DOT_ROWS */
    int              n_results; /* of them; the others repeat the last */
    int64_t          m;         /* where the results of a column are wanted */
    int64_t          from, n;   /* elements of the row */
    bool             last;      /* piece of the row */
    _Alignas(64) uint8_t q[RP_DOT_ROWS * RP_PIECE];
    _Alignas(64) float scale[RP_DOT_ROWS * RP_PIECE / RP_SPAN_UNITS]; /* of each unit, or of each lane */
    _Alignas(64) float min[RP_DOT_ROWS * RP_PIECE / RP_GROUP];        /* only of types that have minima */
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

/* `out` takes rp_tile_column_bytes and starts at a multiple of 64. */
typedef void ArrangeColumn(const QuantForm *form, const DotColumn *x, int64_t n, char *out);

/* DotFunction and DotResults of arranged columns; with the only piece of a row, `sums` is not used. */
typedef void TileFunction(const DotRows *rows, const TileColumn *cols, int n_cols, DotSums *sums);

UnpackRow   rp_unpack_row_plain;
DotFunction rp_dot_plain;
DotResults  rp_dot_results_plain;
#if defined(__x86_64__)
UnpackRow     rp_unpack_row_avx2, rp_unpack_row_avx512;
DotFunction   rp_dot_avx2;
ArrangeColumn rp_arrange_column_avx512;
TileFunction  rp_tile_avx512;
DotResults    rp_dot_results_avx2;
#endif

#if defined(__aarch64__)
UnpackRow   rp_unpack_row_neon;
DotFunction rp_dot_neon, rp_dot_neon_dotprod;
DotResults  rp_dot_results_neon;
#endif

/* Of the variant in use: with `dot` and `results` it takes columns as they stand, with the other two arranged. */
typedef struct DotKernels {
    UnpackRow     *unpack;
    DotFunction   *dot;
    DotResults    *results;
    ArrangeColumn *arrange;
    TileFunction  *tile;
} DotKernels;

DotKernels rp_dot_kernels(void);

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

/* y[m] = row m times the column, for rows of n elements that stand `stride` bytes apart. */
typedef void GemvFunction(const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x,
                          float *y);

/* Of the variant in use; NULL where it has none and the row is to be unpacked. */
GemvFunction *rp_gemv_function(RpDtype dtype);

#if defined(__x86_64__)
GemvFunction *rp_gemv_avx2(RpDtype dtype);
GemvFunction *rp_gemv_avx512(RpDtype dtype);
#endif
#if defined(__aarch64__)
GemvFunction *rp_gemv_neon(RpDtype dtype), *rp_gemv_neon_dotprod(RpDtype dtype);
#endif

#endif
