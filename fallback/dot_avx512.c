#include "fallback/spans_avx512.h"

#ifdef RP_X86

/* One span of n_rows rows and n_cols columns; low[c] has the rows' four lanes one after the other. */
INLINE void span(const QuantForm *form, const DotRows *rows, int n_rows, int64_t i, int units,
                 const DotColumn *cols, int n_cols, __m512 (*acc)[RP_DOT_ROWS], __m512 *low) {
    const int64_t  size = RP_SPAN_UNITS * form->unit, at = i / size * n_rows;
    const uint8_t *q     = rows->q + at * size;
    const float   *scale = rows->scale + at * RP_SPAN_UNITS, *min = rows->min + at * RP_SPAN_UNITS;
    __m512         d[RP_DOT_ROWS];
    for (int r = 0; r < n_rows; r++)
        d[r] = by_unit(_mm256_castps128_ps256(_mm_load_ps(scale + r * RP_SPAN_UNITS)));
    for (int c = 0; c < n_cols; c++) {
        const ColumnSpan x  = column_span(form, &cols[c], i, units);
        const __m512     dx = by_unit(x.scale_sum);
        for (int r = 0; r < n_rows; r++) {
            const __m512i a = _mm512_load_si512(q + r * size);
            const __m512i b = form->unit == 32 ? _mm512_load_si512(q + r * size + 64) : a;
            acc[c][r]       = _mm512_fmadd_ps(_mm512_mul_ps(d[r], dx), lane_dots(form, a, b, &x), acc[c][r]);
        }
        if (!form->has_min) continue;
        const __m512 sum  = _mm512_broadcast_f32x4(_mm256_extractf128_ps(x.scale_sum, 1));
        const __m512 mins = n_rows == 1 ? _mm512_zextps128_ps512(_mm_load_ps(min)) : _mm512_load_ps(min);
        low[c]            = _mm512_fmadd_ps(mins, sum, low[c]);
    }
}

INLINE void tile(const QuantForm *form, const DotRows *rows, int n_rows, const DotColumn *cols, int n_cols,
                 bool first, DotSums *sums) {
    const int64_t size = RP_SPAN_UNITS * form->unit, n = rows->n;
    __m512        acc[RP_DOT_COLS][RP_DOT_ROWS], low[RP_DOT_COLS];
    int64_t       i = 0;
    for (int c = 0; c < n_cols; c++) {
        for (int r = 0; r < n_rows; r++)
            acc[c][r] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[c].acc[r]);
        low[c] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[c].low);
    }
    for (; i + size <= n; i += size) span(form, rows, n_rows, i, RP_SPAN_UNITS, cols, n_cols, acc, low);
    if (i < n) span(form, rows, n_rows, i, (int)((n - i) / 32), cols, n_cols, acc, low);
    for (int c = 0; c < n_cols; c++) {
        for (int r = 0; r < n_rows; r++) _mm512_store_ps(sums[c].acc[r], acc[c][r]);
        _mm512_store_ps(sums[c].low, low[c]);
    }
}

/* Constant numbers of rows and columns, so that the loops over them unroll into registers. */
INLINE void any_columns(const QuantForm *form, const DotRows *rows, int n_rows, const DotColumn *cols,
                        int n_cols, bool first, DotSums *sums) {
    if (n_cols == RP_DOT_COLS)
        tile(form, rows, n_rows, cols, RP_DOT_COLS, first, sums);
    else
        for (int c = 0; c < n_cols; c++) tile(form, rows, n_rows, cols + c, 1, first, sums + c);
}

INLINE void any_rows(const QuantForm *form, const DotRows *rows, const DotColumn *cols, int n_cols,
                     bool first, DotSums *sums) {
    if (rows->n_rows == 1)
        any_columns(form, rows, 1, cols, n_cols, first, sums);
    else
        any_columns(form, rows, RP_DOT_ROWS, cols, n_cols, first, sums);
}

RP_TARGET_AVX512 void rp_dot_avx512(const DotRows *rows, const DotColumn *cols, int n_cols, bool first,
                                    DotSums *sums) {
    const QuantForm *form = rows->form;
    if (form->has_min)
        any_rows(&(QuantForm){32, 0, true}, rows, cols, n_cols, first, sums);
    else if (form->unit == 32)
        any_rows(&(QuantForm){32, form->offset, false}, rows, cols, n_cols, first, sums);
    else
        any_rows(&(QuantForm){16, form->offset, false}, rows, cols, n_cols, first, sums);
}

RP_TARGET_AVX512 void rp_dot_results_avx512(const DotSums *sums, int n_rows, float *y) {
    __m512 acc[RP_DOT_ROWS];
    for (int r = 0; r < RP_DOT_ROWS; r++) acc[r] = _mm512_load_ps(sums->acc[r]);
    _mm_mask_storeu_ps(y, (__mmask8)((1 << n_rows) - 1), four_results(acc, _mm512_load_ps(sums->low)));
}
#endif
