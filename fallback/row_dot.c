#include "fallback/row_dot.h"

#include "fallback/rows.h"

#include <string.h>

enum {
    LONG_ROW_COLS = 32,   /* of rows that are longer than a piece, so many are taken while it is unpacked */
    FLOAT_COLS    = 64,   /* that are taken with a piece of float rows */
    FLOAT_PIECE   = 1024, /* elements of float rows that are widened at a time */
    CACHED_BYTES  = 384 * 1024, /* of arranged columns that are taken with all rows before the next */
};

static void unpack_rows(const RowJob *job, UnpackRow *unpack, const char *rows, size_t stride, DotRows *out) {
    rows += rp_row_bytes(job->weights, out->from);
    for (int r = 0; r < out->n_rows; r++)
        unpack(job->weights, rows + (size_t)(r < out->n_results ? r : out->n_results - 1) * stride, r, out);
}

/* n_cols columns from column c on, as they stand. */
static void dot_columns(const RowJob *job, const DotKernels *kernels, const DotRows *rows, int c, int n_cols,
                        DotSums *sums) {
    DotColumn cols[RP_DOT_COLS];
    for (int j = 0; j < n_cols; j++) cols[j] = rp_dot_column(job->x[c + j], job->n, rows->from);
    kernels->dot(rows, cols, n_cols, rows->from == 0, sums);
    for (int j = 0; j < n_cols && rows->last; j++)
        if (job->y[c + j] != NULL) kernels->results(&sums[j], rows->n_results, job->y[c + j] + rows->m);
}

/* The columns from `first` to `end` with 1 to RP_DOT_ROWS rows. */
static void quantised_rows(const RowJob *job, const DotKernels *kernels, const char *rows, size_t stride,
                           int64_t m, int n_rows, int first, int end) {
    const int step = job->n > RP_PIECE ? LONG_ROW_COLS : end - first;
    DotRows   piece;
    DotSums   sums[LONG_ROW_COLS];
    piece.form      = rp_quant_form(job->weights);
    piece.n_rows    = n_rows == 1 ? 1 : RP_DOT_ROWS;
    piece.n_results = n_rows;
    piece.m         = m;
    for (int c0 = first; c0 < end; c0 += step) {
        const int n_cols = end - c0 < step ? end - c0 : step;
        for (piece.from = 0; piece.from < job->n; piece.from += RP_PIECE) {
            piece.last = job->n - piece.from <= RP_PIECE;
            piece.n    = piece.last ? job->n - piece.from : RP_PIECE;
            unpack_rows(job, kernels->unpack, rows, stride, &piece);
            for (int c = 0; c < n_cols; c += RP_DOT_COLS) {
                const int n = n_cols - c < RP_DOT_COLS ? n_cols - c : RP_DOT_COLS;
                DotSums  *s = sums + c % LONG_ROW_COLS; /* of a row in one piece they are used at once */
                if (job->arranged)
                    kernels->tile(&piece, &job->tile[c0 + c], n, s);
                else
                    dot_columns(job, kernels, &piece, c0 + c, n, s);
            }
        }
    }
}

/* Straight from their blocks: one column, or columns that the variant wants arranged and nobody has arranged. */
static bool column_by_column(const RowJob *job, const DotKernels *kernels, const char *rows, size_t stride,
                             int64_t m, int64_t n_rows) {
    GemvFunction *gemv = rp_gemv_function(job->weights);
    if (gemv == NULL || (job->n_cols > 1 && (job->arranged || kernels->dot != NULL))) return false;
    for (int c = 0; c < job->n_cols; c++) {
        const DotColumn x = rp_dot_column(job->x[c], job->n, 0);
        if (job->y[c] != NULL) gemv(rows, stride, n_rows, job->n, &x, job->y[c] + m);
    }
    return true;
}

/* ---- float weights ---- */

/* From element k on, len elements of n_rows rows, as they stand or widened. */
static void float_piece(const RowJob *job, const char *rows, size_t stride, int n_rows, int64_t k,
                        int64_t len, float (*wide)[FLOAT_PIECE], const float **out) {
    for (int r = 0; r < n_rows; r++) {
        const char *at = rows + (size_t)r * stride + rp_row_bytes(job->weights, k);
        out[r]         = job->weights == RP_F32 ? (const float *)(const void *)at : wide[r];
        if (job->weights != RP_F32) rp_widen_row(job->weights, at, len, wide[r]);
    }
}

/* The columns from `first` to `end`, at most FLOAT_COLS, with 1 or RP_DOT_ROWS rows. */
static void float_rows(const RowJob *job, const char *rows, size_t stride, int64_t m, int n_rows, int first,
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
            for (int c = 0; c < n_cols; c++) { /* one row: see rows_of_floats */
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

static void rows_of_floats(const RowJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    for (int c = 0; c < job->n_cols; c += FLOAT_COLS) {
        const int end = c + FLOAT_COLS < job->n_cols ? c + FLOAT_COLS : job->n_cols;
        int64_t   i   = 0;
        for (; i + RP_DOT_ROWS <= n_rows && job->whole; i += RP_DOT_ROWS)
            float_rows(job, rows + (size_t)i * stride, stride, m + i, RP_DOT_ROWS, c, end);
        for (; i < n_rows; i++) float_rows(job, rows + (size_t)i * stride, stride, m + i, 1, c, end);
    }
}

static int columns_in_cache(const RowJob *job) {
    const size_t bytes = job->arranged ? rp_tile_column_bytes(rp_quant_form(job->weights), job->n)
                                       : rp_row_bytes(RP_Q8_ACT, job->n);
    const size_t n     = CACHED_BYTES / bytes / LONG_ROW_COLS * LONG_ROW_COLS;
    return n < LONG_ROW_COLS ? LONG_ROW_COLS : (n < RP_JOB_COLS ? (int)n : RP_JOB_COLS);
}

void rp_rows_dot(const RowJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    if (job->columns != RP_Q8_ACT) {
        rows_of_floats(job, rows, stride, m, n_rows);
        return;
    }
    const DotKernels kernels = rp_dot_kernels();
    if (column_by_column(job, &kernels, rows, stride, m, n_rows)) return;
    const int step = columns_in_cache(job);
    for (int c = 0; c < job->n_cols; c += step)
        for (int64_t i = 0; i < n_rows; i += RP_DOT_ROWS)
            quantised_rows(job, &kernels, rows + (size_t)i * stride, stride, m + i,
                           (int)(n_rows - i < RP_DOT_ROWS ? n_rows - i : RP_DOT_ROWS), c,
                           c + step < job->n_cols ? c + step : job->n_cols);
}

void rp_row_dot(const RowJob *job, const char *row, int64_t m) { rp_rows_dot(job, row, 0, m, 1); }

/* ---- arranged columns ---- */

static size_t column_bytes(const TensorView *w) {
    return rp_tile_column_bytes(rp_quant_form(w->dtype), w->ne[0]);
}

bool rp_arranges(const TensorView *w, const TensorView *x) {
    return x->dtype == RP_Q8_ACT && rp_view_rows(x) > 1 && rp_quant_form(w->dtype) != NULL;
}

CpuNeeds rp_needs_arranged(const TensorView *w, const TensorView *x) {
    return (CpuNeeds){.phases = 2, .shared = (size_t)rp_view_rows(x) * column_bytes(w)};
}

void rp_arrange_columns(const TensorView *w, const TensorView *x, const KernelCtx *ctx) {
    ArrangeColumn *arrange = rp_dot_kernels().arrange;
    for (int64_t r = rp_first_row(x, ctx); r < rp_end_row(x, ctx) && arrange != NULL; r++) {
        const DotColumn column = rp_dot_column(rp_view_row(x, r), w->ne[0], 0);
        arrange(rp_quant_form(w->dtype), &column, w->ne[0],
                (char *)ctx->shared + (size_t)r * column_bytes(w));
    }
}

const char *rp_arranged_column(const TensorView *w, const KernelCtx *ctx, int64_t row) {
    if (rp_dot_kernels().arrange == NULL) return NULL;
    return (const char *)ctx->shared + (size_t)row * column_bytes(w);
}
