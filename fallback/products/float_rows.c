/* The blocked loops of float_rows.h: a slice of up to four rows is converted to f32 once and multiplied by up to 64
 * columns, four rows and four columns at a time. Accumulators of all tiles stay in memory over the slices. */
#include "fallback/products/float_rows.h"

#include "base/types/custom.h"
#include "reprise/quants.h"

#include <string.h>

enum {
    BLOCK_ROWS  = 16,  /* f32 rows that columns are multiplied by */
    FLOAT_COLS  = 64,  /* columns multiplied by a slice of the rows */
    FLOAT_SLICE = 1024 /* most elements of a row converted at a time */
};

_Static_assert(FLOAT_SLICE % RP_LANES == 0 && (int)RP_DTYPE_MAX_ELEMS <= (int)FLOAT_SLICE, "a slice has a whole block");

/* Elements of a slice: a multiple of 16, so that lanes line up, and whole blocks. A custom block has a multiple of 16
 * elements, or a divisor of 16. */
static int64_t slice_elems(RpDtype weights) {
    const int64_t block = rp_dtype_info(weights)->block_elems, unit = block > RP_LANES ? block : RP_LANES;
    return FLOAT_SLICE / unit * unit;
}

/* out[r] = elements k to k + len of row r as f32: in place, or converted into f32[r]. */
static void float_slice(const FloatWork *work, const char *rows, size_t stride, int n_rows, int64_t k, int64_t len,
                        float (*f32)[FLOAT_SLICE], const float **out) {
    for (int r = 0; r < n_rows; r++) {
        const char *at = rows + (size_t)r * stride + rp_row_bytes(work->weights, k);
        out[r]         = work->weights == RP_F32 ? (const float *)(const void *)at : f32[r];
        if (work->weights != RP_F32) rp_dequantize_row(work->weights, at, len, f32[r]);
    }
}

/* 1 or RP_DOT_ROWS rows times columns [first, end), at most FLOAT_COLS. Columns of different lengths take one row
 * at a time, and each column alone. */
static void float_rows(const FloatWork *work, const char *rows, size_t stride, int64_t m, int n_rows, int first,
                       int end) {
    const FloatKernels kernels = rp_float_kernels();
    const float       *w[RP_DOT_ROWS];
    float              f32[RP_DOT_ROWS][FLOAT_SLICE];
    float              acc[FLOAT_COLS / RP_DOT_COLS][RP_DOT_ROWS][RP_DOT_COLS][RP_LANES];
    memset(acc, 0, (size_t)(end - first + RP_DOT_COLS - 1) / RP_DOT_COLS * sizeof acc[0]);
    const int64_t slice = slice_elems(work->weights);
    for (int64_t k = 0; k < work->n; k += slice) {
        const int64_t len = work->n - k < slice ? work->n - k : slice;
        float_slice(work, rows, stride, n_rows, k, len, f32, w);
        for (int c0 = first; c0 < end; c0 += RP_DOT_COLS) {
            const int    n_cols = end - c0 < RP_DOT_COLS ? end - c0 : RP_DOT_COLS, tile = (c0 - first) / RP_DOT_COLS;
            const float *cols[RP_DOT_COLS];
            for (int c = 0; c < n_cols; c++) cols[c] = (const float *)(const void *)work->x[c0 + c] + k;
            if (work->whole) {
                kernels.dot(w, n_rows, cols, n_cols, len, acc[tile]);
                continue;
            }
            for (int c = 0; c < n_cols; c++) { /* here n_rows is 1: see rp_float_rows */
                const int64_t left = work->length[c0 + c] - k;
                if (left > 0) kernels.dot(w, 1, cols + c, 1, left < len ? left : len, (void *)&acc[tile][0][c]);
            }
        }
    }
    for (int c0 = first; c0 < end; c0 += RP_DOT_COLS)
        for (int r = 0; r < n_rows; r++) {
            float y[RP_DOT_COLS];
            kernels.reduce(acc[(c0 - first) / RP_DOT_COLS][r], y);
            for (int c = c0; c < c0 + RP_DOT_COLS && c < end; c++)
                if (work->y[c] != NULL) work->y[c][m + r] = y[c - c0];
        }
}

/* f32 rows times RP_DOT_COLS columns from `first` on, four rows at a time; returns the number of rows done. */
static int64_t whole_tiles(const FloatWork *work, FloatTile *tile, const char *rows, size_t stride, int64_t m,
                           int64_t n_rows, int first) {
    const float *w[RP_DOT_ROWS], *x[RP_DOT_COLS];
    float       *y[RP_DOT_COLS];
    int64_t      i = 0;
    for (int c = 0; c < RP_DOT_COLS; c++) x[c] = (const float *)(const void *)work->x[first + c];
    for (; i + RP_DOT_ROWS <= n_rows; i += RP_DOT_ROWS) {
        for (int r = 0; r < RP_DOT_ROWS; r++) w[r] = (const float *)(const void *)(rows + (size_t)(i + r) * stride);
        for (int c = 0; c < RP_DOT_COLS; c++) y[c] = work->y[first + c] + m + i;
        tile(w, x, work->n, y);
    }
    return i;
}

/* f32 weights: BLOCK_ROWS rows at a time stay in the cache for the columns that pass by. Returns the number of columns
 * done for all rows. */
static int f32_columns(const FloatWork *work, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    FloatTile *tile = rp_float_kernels().tile;
    const int  end  = work->n_cols / RP_DOT_COLS * RP_DOT_COLS;
    if (tile == NULL || work->weights != RP_F32 || !work->whole || n_rows < RP_DOT_ROWS) return 0;
    for (int c = 0; c < end; c++)
        if (work->y[c] == NULL) return 0;
    for (int64_t i = 0; i < n_rows; i += BLOCK_ROWS) {
        const char   *from = rows + (size_t)i * stride;
        const int64_t n    = n_rows - i < BLOCK_ROWS ? n_rows - i : BLOCK_ROWS;
        for (int c = 0; c < end; c += RP_DOT_COLS)
            for (int64_t done = whole_tiles(work, tile, from, stride, m + i, n, c); done < n; done++)
                float_rows(work, from + (size_t)done * stride, stride, m + i + done, 1, c, c + RP_DOT_COLS);
    }
    return end;
}

/* One column: returns the number of rows done. */
static int64_t one_column(const FloatWork *work, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    if (work->n_cols != 1 || !work->whole || work->y[0] == NULL) return 0;
    const FloatColumn c = {rows, stride, work->n, (const float *)(const void *)work->x[0], work->y[0] + m};
    return rp_gemv_float(work->weights, &c, n_rows);
}

/* Custom types have columns of whole rows only (ops/mul_mat.c). */
static void custom_rows(const FloatWork *work, const RpDtypeDescription *type, const char *rows, size_t stride,
                        int64_t m, int64_t n_rows) {
    for (int64_t i = 0; i < n_rows; i++)
        for (int c = 0; c < work->n_cols; c++)
            if (work->y[c] != NULL)
                work->y[c][m + i] =
                    type->dot(rows + (size_t)i * stride, (const float *)(const void *)work->x[c], work->n, type->user);
}

void rp_float_rows(const FloatWork *work, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    const CustomDtype *custom = rp_dtype_custom(work->weights);
    if (custom != NULL && custom->description.dot != NULL) {
        custom_rows(work, &custom->description, rows, stride, m, n_rows);
        return;
    }
    const int64_t done = one_column(work, rows, stride, m, n_rows);
    rows += (size_t)done * stride, m += done, n_rows -= done;
    for (int c = f32_columns(work, rows, stride, m, n_rows); c < work->n_cols; c += FLOAT_COLS) {
        const int end = c + FLOAT_COLS < work->n_cols ? c + FLOAT_COLS : work->n_cols;
        int64_t   i   = 0;
        for (; i + RP_DOT_ROWS <= n_rows && work->whole; i += RP_DOT_ROWS)
            float_rows(work, rows + (size_t)i * stride, stride, m + i, RP_DOT_ROWS, c, end);
        for (; i < n_rows; i++) float_rows(work, rows + (size_t)i * stride, stride, m + i, 1, c, end);
    }
}
