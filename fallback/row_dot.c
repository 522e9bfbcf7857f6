#include "fallback/row_dot.h"

enum { PIECE = 4096 };

typedef struct Unpacked {
    uint8_t q[PIECE];
    float   scale[PIECE / RP_GROUP], min[PIECE / RP_GROUP];
} Unpacked;

static int group_size(const RowJob *job, int c) {
    return job->n_cols - c < RP_DOT_COLS ? job->n_cols - c : RP_DOT_COLS;
}

static void quantised_row(const RowJob *job, const char *row, int64_t m) {
    UnpackFunction *unpack = rp_unpack_function(job->weights);
    DotFunction    *dot    = rp_dot_function();
    DotResults     *finish = rp_dot_results_function();
    Unpacked        u;
    int64_t         held = -1; /* the piece that is unpacked */
    for (int first = 0; first < job->n_cols; first += RP_DOT_COLS) {
        const int n_cols            = group_size(job, first);
        DotSums   sums[RP_DOT_COLS] = {0};
        for (int64_t k = 0; k < job->n; k += PIECE) {
            const int64_t len = job->n - k < PIECE ? job->n - k : PIECE;
            DotColumn     cols[RP_DOT_COLS];
            if (held != k) unpack(row + rp_row_bytes(job->weights, k), len, u.q, u.scale, u.min);
            held = k;
            for (int c = 0; c < n_cols; c++) cols[c] = rp_dot_column(job->x[first + c], job->n, k);
            dot(u.q, u.scale, u.min, len, cols, n_cols, sums);
        }
        float result[RP_DOT_COLS];
        finish(sums, n_cols, result);
        for (int c = 0; c < n_cols; c++)
            if (job->y[first + c] != NULL) job->y[first + c][m] = result[c];
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
    float             wide[PIECE];
    for (int first = 0; first < job->n_cols; first += RP_DOT_COLS) {
        const int n_cols                     = group_size(job, first);
        float     acc[RP_DOT_COLS][RP_LANES] = {0};
        for (int64_t k = 0; k < job->n; k += PIECE) {
            const int64_t len   = job->n - k < PIECE ? job->n - k : PIECE;
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

void rp_row_dot(const RowJob *job, const char *row, int64_t m) {
    if (job->columns == RP_Q8_ACT)
        quantised_row(job, row, m);
    else
        float_row(job, row, m);
}
