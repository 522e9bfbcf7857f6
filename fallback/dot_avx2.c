/* Tiles of four rows and two columns, one pair of each span's units after the other, so that sums stay in
 * registers; minima apart. */
#include "fallback/spans_avx2.h"

#ifdef RP_X86

enum { COLS = 2 };

/* Columns, and their last spans where those are not whole. */
typedef struct Columns {
    DotColumn  all[RP_DOT_COLS], last[RP_DOT_COLS];
    PaddedSpan padded[RP_DOT_COLS];
    int64_t    whole; /* elements before the last spans */
} Columns;

/* Pair h of span `at` of n_rows rows, which is in the columns from element i on. */
INLINE void add_pair(const QuantForm *form, const DotRows *rows, int n_rows, int h, int64_t at,
                     const DotColumn *cols, int n_cols, int64_t i, __m256 (*acc)[RP_DOT_ROWS]) {
    const int64_t  size  = RP_SPAN_UNITS * form->unit;
    const uint8_t *q     = rows->q + at * size + 32 * h;
    const float   *scale = rows->scale + at * RP_SPAN_UNITS;
    __m256i        xa[COLS], xb[COLS], offset[COLS];
    __m256         dx[COLS];
    for (int c = 0; c < n_cols; c++) {
        column_pair(form, cols[c].q + i + 2 * h * form->unit, &xa[c], &xb[c], &offset[c]);
        dx[c] = by_unit(column_scales(form, cols[c].scale + i / 32), h);
    }
    for (int r = 0; r < n_rows; r++) {
        const __m256i a = load32(q + r * size), b = form->unit == 32 ? load32(q + r * size + 64) : a;
        const __m256  d = by_unit(_mm_load_ps(scale + r * RP_SPAN_UNITS), h);
        for (int c = 0; c < n_cols; c++)
            acc[c][r] = _mm256_fmadd_ps(_mm256_mul_ps(d, dx[c]),
                                        lane_dots(form, a, b, xa[c], xb[c], offset[c]), acc[c][r]);
    }
}

INLINE void add_pairs(const QuantForm *form, const DotRows *rows, int n_rows, int h, const Columns *x, int c,
                      int n_cols, bool first, DotSums *sums) {
    const int64_t size = RP_SPAN_UNITS * form->unit;
    __m256        acc[COLS][RP_DOT_ROWS];
    int64_t       i = 0, at = 0;
    for (int k = 0; k < n_cols; k++)
        for (int r = 0; r < n_rows; r++)
            acc[k][r] = first ? _mm256_setzero_ps() : _mm256_load_ps(sums[c + k].acc[r] + 8 * h);
    for (; i < x->whole; i += size, at += n_rows)
        add_pair(form, rows, n_rows, h, at, x->all + c, n_cols, i, acc);
    if (i < rows->n) add_pair(form, rows, n_rows, h, at, x->last + c, n_cols, 0, acc);
    for (int k = 0; k < n_cols; k++)
        for (int r = 0; r < n_rows; r++) _mm256_store_ps(sums[c + k].acc[r] + 8 * h, acc[k][r]);
}

/* Two rows side by side. */
INLINE void add_minima(const DotRows *rows, int n_rows, const Columns *x, int c, bool first, DotSums *sums) {
    const DotColumn *of_x = &x->all[c];
    const float     *min  = rows->min;
    __m256           low[RP_DOT_ROWS / 2];
    for (int r = 0; r < n_rows; r += 2)
        low[r / 2] = first ? _mm256_setzero_ps() : _mm256_load_ps(sums[c].low[r]);
    for (int64_t i = 0; i < rows->n; i += 128, min += n_rows * RP_SPAN_UNITS) {
        const __m128 sum  = column_sums(i < x->whole ? of_x->sum + i / RP_GROUP : x->last[c].sum);
        const __m256 both = _mm256_insertf128_ps(_mm256_castps128_ps256(sum), sum, 1);
        for (int r = 0; r < n_rows; r += 2) {
            const __m256 m = n_rows == 1 ? _mm256_zextps128_ps256(_mm_load_ps(min))
                                         : _mm256_load_ps(min + r * RP_SPAN_UNITS);
            low[r / 2]     = _mm256_fmadd_ps(m, both, low[r / 2]);
        }
    }
    for (int r = 0; r < n_rows; r += 2) _mm256_store_ps(sums[c].low[r], low[r / 2]);
}

/* Constant numbers of rows and columns, so that the loops over them unroll into registers. */
INLINE void any_columns(const QuantForm *form, const DotRows *rows, int n_rows, const Columns *x, int n_cols,
                        bool first, DotSums *sums) {
    for (int h = 0; h < PAIRS; h++) {
        int c = 0;
        for (; c + COLS <= n_cols; c += COLS) add_pairs(form, rows, n_rows, h, x, c, COLS, first, sums);
        if (c < n_cols) add_pairs(form, rows, n_rows, h, x, c, 1, first, sums);
    }
    for (int c = 0; c < n_cols; c++) {
        if (form->has_min)
            add_minima(rows, n_rows, x, c, first, sums);
        else if (first)
            memset(sums[c].low, 0, sizeof sums[c].low);
    }
}

INLINE void any_rows(const QuantForm *form, const DotRows *rows, const Columns *x, int n_cols, bool first,
                     DotSums *sums) {
    if (rows->n_rows == 1)
        any_columns(form, rows, 1, x, n_cols, first, sums);
    else
        any_columns(form, rows, RP_DOT_ROWS, x, n_cols, first, sums);
}

RP_TARGET_AVX2 void rp_dot_avx2(const DotRows *rows, const DotColumn *cols, int n_cols, bool first,
                                DotSums *sums) {
    const QuantForm *form = rows->form;
    const int64_t    size = RP_SPAN_UNITS * form->unit;
    Columns          x;
    x.whole = rows->n / size * size;
    for (int c = 0; c < n_cols; c++) {
        x.all[c] = cols[c];
        if (x.whole < rows->n)
            x.last[c] = padded(&cols[c], x.whole, (int)((rows->n - x.whole) / 32), &x.padded[c]);
    }
    if (form->has_min)
        any_rows(&(QuantForm){32, 0, true}, rows, &x, n_cols, first, sums);
    else if (form->offset == SIGNED)
        any_rows(&(QuantForm){32, SIGNED, false}, rows, &x, n_cols, first, sums);
    else if (form->unit == 32)
        any_rows(&(QuantForm){32, form->offset, false}, rows, &x, n_cols, first, sums);
    else
        any_rows(&(QuantForm){16, form->offset, false}, rows, &x, n_cols, first, sums);
}

RP_TARGET_AVX2 void rp_dot_results_avx2(const DotSums *sums, int n_rows, float *y) {
    __m128 acc[RP_DOT_ROWS], low[RP_DOT_ROWS];
    float  all[RP_DOT_ROWS];
    for (int r = 0; r < RP_DOT_ROWS; r++) {
        acc[r] = halve_lanes(_mm256_load_ps(sums->acc[r]), _mm256_load_ps(sums->acc[r] + 8));
        low[r] = _mm_load_ps(sums->low[r]);
    }
    _mm_storeu_ps(all, _mm_add_ps(four_small_trees(acc), four_small_trees(low)));
    memcpy(y, all, (size_t)n_rows * sizeof *y);
}
#endif
