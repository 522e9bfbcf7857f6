#include "fallback/float_rows.h"

#include "reprise/quants.h"

#include <string.h>

enum {
    FLOAT_COLS  = 64,  /* that are taken with a piece of the rows */
    FLOAT_PIECE = 1024 /* elements of a row that are widened at a time */
};

/* From element k on, len elements of n_rows rows, as they stand or widened. */
static void float_piece(const FloatJob *job, const char *rows, size_t stride, int n_rows, int64_t k,
                        int64_t len, float (*wide)[FLOAT_PIECE], const float **out) {
    for (int r = 0; r < n_rows; r++) {
        const char *at = rows + (size_t)r * stride + rp_row_bytes(job->weights, k);
        out[r]         = job->weights == RP_F32 ? (const float *)(const void *)at : wide[r];
        if (job->weights != RP_F32) rp_dequantize_row(job->weights, at, len, wide[r]);
    }
}

/* The columns from `first` to `end`, at most FLOAT_COLS, with 1 or RP_DOT_ROWS rows. */
static void float_rows(const FloatJob *job, const char *rows, size_t stride, int64_t m, int n_rows, int first,
                       int end) {
    const FloatKernels kernels = rp_float_kernels();
    const float       *w[RP_DOT_ROWS];
    float              wide[RP_DOT_ROWS][FLOAT_PIECE];
    float              acc[FLOAT_COLS / RP_DOT_COLS][RP_DOT_ROWS][RP_DOT_COLS][RP_LANES];
    memset(acc, 0, (size_t)(end - first + RP_DOT_COLS - 1) / RP_DOT_COLS * sizeof acc[0]);
    for (int64_t k = 0; k < job->n; k += FLOAT_PIECE) {
        const int64_t len = job->n - k < FLOAT_PIECE ? job->n - k : FLOAT_PIECE;
        float_piece(job, rows, stride, n_rows, k, len, wide, w);
        for (int c0 = first; c0 < end; c0 += RP_DOT_COLS) {
            const int n_cols = end - c0 < RP_DOT_COLS ? end - c0 : RP_DOT_COLS,
                      tile   = (c0 - first) / RP_DOT_COLS;
            const float *cols[RP_DOT_COLS];
            for (int c = 0; c < n_cols; c++) cols[c] = (const float *)(const void *)job->x[c0 + c] + k;
            if (job->whole) {
                kernels.dot(w, n_rows, cols, n_cols, len, acc[tile]);
                continue;
            }
            for (int c = 0; c < n_cols; c++) { /* one row: see rp_float_rows */
                const int64_t left = job->length[c0 + c] - k;
                if (left > 0)
                    kernels.dot(w, 1, cols + c, 1, left < len ? left : len, (void *)&acc[tile][0][c]);
            }
        }
    }
    for (int c0 = first; c0 < end; c0 += RP_DOT_COLS)
        for (int r = 0; r < n_rows; r++) {
            float y[RP_DOT_COLS];
            kernels.results(acc[(c0 - first) / RP_DOT_COLS][r], y);
            for (int c = c0; c < c0 + RP_DOT_COLS && c < end; c++)
                if (job->y[c] != NULL) job->y[c][m + r] = y[c - c0];
        }
}

void rp_float_rows(const FloatJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    for (int c = 0; c < job->n_cols; c += FLOAT_COLS) {
        const int end = c + FLOAT_COLS < job->n_cols ? c + FLOAT_COLS : job->n_cols;
        int64_t   i   = 0;
        for (; i + RP_DOT_ROWS <= n_rows && job->whole; i += RP_DOT_ROWS)
            float_rows(job, rows + (size_t)i * stride, stride, m + i, RP_DOT_ROWS, c, end);
        for (; i < n_rows; i++) float_rows(job, rows + (size_t)i * stride, stride, m + i, 1, c, end);
    }
}
