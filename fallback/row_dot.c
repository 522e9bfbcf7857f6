#include "fallback/row_dot.h"

/* Of rows that are longer than a piece, so many columns are taken with a piece while it is unpacked. */
enum { LONG_ROW_COLS = 32 };

static void unpack_rows(const RowJob *job, UnpackRow *unpack, const char *rows, size_t stride, int n_rows,
                        DotRows *out) {
    for (int r = 0; r < out->n_rows; r++) /* those that lack repeat the last */
        unpack(job->weights, rows + (size_t)(r < n_rows ? r : n_rows - 1) * stride, r, out);
}

/* n_cols columns from column c on, from their element k on. */
static void dot_columns(const RowJob *job, DotFunction *dot, const DotRows *rows, int c, int n_cols,
                        int64_t k, DotSums *sums) {
    for (int i = 0; i < n_cols; i += RP_DOT_COLS) {
        const int n = n_cols - i < RP_DOT_COLS ? n_cols - i : RP_DOT_COLS;
        DotColumn cols[RP_DOT_COLS];
        for (int j = 0; j < n; j++) cols[j] = rp_dot_column(job->x[c + i + j], job->n, k);
        dot(rows, cols, n, k == 0, sums + i);
    }
}

/* 1 to RP_DOT_ROWS rows. */
static void quantised_rows(const RowJob *job, const char *rows, size_t stride, int64_t m, int n_rows) {
    const DotKernels kernels = rp_dot_kernels();
    const int        step    = job->n > RP_PIECE ? LONG_ROW_COLS : RP_DOT_COLS;
    DotRows          piece;
    DotSums          sums[LONG_ROW_COLS];
    int64_t          held = -1; /* the piece that is unpacked */
    piece.form            = rp_quant_form(job->weights);
    piece.n_rows          = n_rows == 1 ? 1 : RP_DOT_ROWS;
    for (int first = 0; first < job->n_cols; first += step) {
        const int n_cols = job->n_cols - first < step ? job->n_cols - first : step;
        for (int64_t k = 0; k < job->n; k += RP_PIECE) {
            piece.n = job->n - k < RP_PIECE ? job->n - k : RP_PIECE;
            if (held != k)
                unpack_rows(job, kernels.unpack, rows + rp_row_bytes(job->weights, k), stride, n_rows,
                            &piece);
            held = k;
            dot_columns(job, kernels.dot, &piece, first, n_cols, k, sums);
        }
        for (int c = 0; c < n_cols; c++)
            if (job->y[first + c] != NULL) kernels.results(&sums[c], n_rows, job->y[first + c] + m);
    }
}

static float lanes_sum(float *acc) {
    for (int n = RP_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) acc[l] += acc[l + n];
    return acc[0];
}

static void float_row(const RowJob *job, const char *row, int64_t m) {
    FloatDotFunction *dot  = rp_float_dot_function();
    int64_t           held = -1; /* the piece that is widened */
    float             wide[RP_PIECE];
    for (int first = 0; first < job->n_cols; first += RP_DOT_COLS) {
        const int n_cols = job->n_cols - first < RP_DOT_COLS ? job->n_cols - first : RP_DOT_COLS;
        float     acc[RP_DOT_COLS][RP_LANES] = {0};
        for (int64_t k = 0; k < job->n; k += RP_PIECE) {
            const int64_t len   = job->n - k < RP_PIECE ? job->n - k : RP_PIECE;
            const float  *piece = wide, *cols[RP_DOT_COLS];
            if (job->weights == RP_F32)
                piece = (const float *)(const void *)row + k;
            else if (held != k)
                rp_widen_row(job->weights, row + rp_row_bytes(job->weights, k), len, wide);
            held = k;
            for (int c = 0; c < n_cols; c++) cols[c] = (const float *)(const void *)job->x[first + c] + k;
            if (job->whole) {
                dot(piece, cols, len, n_cols, acc);
                continue;
            }
            for (int c = 0; c < n_cols; c++) {
                const int64_t left = job->length[first + c] - k;
                if (left > 0) dot(piece, cols + c, left < len ? left : len, 1, acc + c);
            }
        }
        for (int c = 0; c < n_cols; c++)
            if (job->y[first + c] != NULL) job->y[first + c][m] = lanes_sum(acc[c]);
    }
}

void rp_rows_dot(const RowJob *job, const char *rows, size_t stride, int64_t m, int64_t n_rows) {
    const int step = job->columns == RP_Q8_ACT ? RP_DOT_ROWS : 1;
    for (int64_t i = 0; i < n_rows; i += step, rows += (size_t)step * stride) {
        if (job->columns == RP_Q8_ACT)
            quantised_rows(job, rows, stride, m + i, (int)(n_rows - i < step ? n_rows - i : step));
        else
            float_row(job, rows, m + i);
    }
}

void rp_row_dot(const RowJob *job, const char *row, int64_t m) { rp_rows_dot(job, row, 0, m, 1); }
