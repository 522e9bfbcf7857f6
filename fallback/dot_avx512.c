#include "fallback/spans_avx512.h"

#ifdef RP_X86

RP_TARGET_AVX512 void rp_arrange_column_avx512(const QuantForm *form, const DotColumn *x, int64_t n,
                                               char *out) {
    const int64_t size  = RP_SPAN_UNITS * form->unit;
    const size_t  bytes = rp_tile_span_bytes(form);
    float        *sum   = (float *)(void *)(out + (size_t)rp_spans(form, n) * bytes);
    for (int64_t i = 0; i < n; i += size, out += bytes, sum += RP_SPAN_UNITS) {
        const int64_t    left  = (n - i) / 32;
        const int        units = left < RP_SPAN_UNITS ? (int)left : RP_SPAN_UNITS;
        const ColumnSpan s     = column_span(form, x, i, units);
        char            *lane  = out + size;
        _mm512_store_si512(out, s.a);
        if (form->unit == 32) _mm512_store_si512(out + 64, s.b);
        _mm512_store_ps(lane, by_unit(s.scale_sum));
        if (form->offset > 0) _mm512_store_si512(lane + 64, s.offset);
        if (form->has_min) _mm_store_ps(sum, _mm256_extractf128_ps(s.scale_sum, 1));
    }
}

/* One span of n_rows rows and n_cols columns; low[c] has the rows' four lanes one after the other. */
INLINE void span(const QuantForm *form, const DotRows *rows, int n_rows, int64_t at, const char *const *x,
                 const float *const *sum, int n_cols, __m512 (*acc)[RP_DOT_COLS], __m512 *low) {
    const int64_t  size  = RP_SPAN_UNITS * form->unit;
    const uint8_t *q     = rows->q + at * size;
    const float   *scale = rows->scale + at * RP_LANES, *min = rows->min + at * RP_SPAN_UNITS;
    for (int r = 0; r < n_rows; r++) {
        const __m512i a = _mm512_load_si512(q + r * size);
        const __m512i b = form->unit == 32 ? _mm512_load_si512(q + r * size + 64) : a;
        const __m512  d = _mm512_load_ps(scale + r * RP_LANES);
        for (int c = 0; c < n_cols; c++) {
            const char *lane = x[c] + size;
            __m512i     dot  = form->offset > 0 ? _mm512_load_si512(lane + 64) : _mm512_setzero_si512();
            dot              = _mm512_dpbusd_epi32(dot, a, _mm512_load_si512(x[c]));
            if (form->unit == 32) dot = _mm512_dpbusd_epi32(dot, b, _mm512_load_si512(x[c] + 64));
            acc[r][c] =
                _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_load_ps(lane)), _mm512_cvtepi32_ps(dot), acc[r][c]);
        }
    }
    if (!form->has_min) return;
    const __m512 mins = n_rows == 1 ? _mm512_zextps128_ps512(_mm_load_ps(min)) : _mm512_load_ps(min);
    for (int c = 0; c < n_cols; c++)
        low[c] = _mm512_fmadd_ps(mins, _mm512_broadcast_f32x4(_mm_load_ps(sum[c])), low[c]);
}

INLINE void tile(const QuantForm *form, const DotRows *rows, int n_rows, const TileColumn *cols, int n_cols,
                 DotSums *sums) {
    const int64_t size = RP_SPAN_UNITS * form->unit, skip = rows->from / size;
    const size_t  bytes = rp_tile_span_bytes(form);
    __m512        acc[RP_DOT_ROWS][RP_DOT_COLS], low[RP_DOT_COLS];
    const char   *x[RP_DOT_COLS];
    const float  *sum[RP_DOT_COLS];
    for (int c = 0; c < n_cols; c++) {
        for (int r = 0; r < RP_DOT_ROWS; r++)
            acc[r][c] = rows->from == 0 || r >= n_rows ? _mm512_setzero_ps() : _mm512_load_ps(sums[c].acc[r]);
        low[c] = rows->from == 0 ? _mm512_setzero_ps() : _mm512_load_ps(sums[c].low);
        x[c]   = cols[c].spans + (size_t)skip * bytes;
        sum[c] = cols[c].sum + skip * RP_SPAN_UNITS;
    }
    for (int64_t i = 0, at = 0; i < rows->n; i += size, at += n_rows) {
        span(form, rows, n_rows, at, x, sum, n_cols, acc, low);
        for (int c = 0; c < n_cols; c++) x[c] += bytes, sum[c] += RP_SPAN_UNITS;
    }
    for (int c = 0; c < n_cols; c++) {
        if (rows->last) {
            const __m512 of_column[RP_DOT_ROWS] = {acc[0][c], acc[1][c], acc[2][c], acc[3][c]};
            _mm_mask_storeu_ps(cols[c].y + rows->m, (__mmask8)((1 << rows->n_results) - 1),
                               four_results(of_column, low[c]));
            continue;
        }
        for (int r = 0; r < n_rows; r++) _mm512_store_ps(sums[c].acc[r], acc[r][c]);
        _mm512_store_ps(sums[c].low, low[c]);
    }
}

/* Constant numbers of rows and columns, so that the loops over them unroll into registers. */
INLINE void any_columns(const QuantForm *form, const DotRows *rows, int n_rows, const TileColumn *cols,
                        int n_cols, DotSums *sums) {
    if (n_cols == 4)
        tile(form, rows, n_rows, cols, 4, sums);
    else if (n_cols == 3)
        tile(form, rows, n_rows, cols, 3, sums);
    else if (n_cols == 2)
        tile(form, rows, n_rows, cols, 2, sums);
    else
        tile(form, rows, n_rows, cols, 1, sums);
}

INLINE void any_rows(const QuantForm *form, const DotRows *rows, const TileColumn *cols, int n_cols,
                     DotSums *sums) {
    if (rows->n_rows == 1)
        any_columns(form, rows, 1, cols, n_cols, sums);
    else
        any_columns(form, rows, RP_DOT_ROWS, cols, n_cols, sums);
}

RP_TARGET_AVX512 void rp_tile_avx512(const DotRows *rows, const TileColumn *cols, int n_cols, DotSums *sums) {
    const QuantForm *form = rows->form;
    if (form->has_min)
        any_rows(&(QuantForm){32, 0, true}, rows, cols, n_cols, sums);
    else if (form->unit == 32)
        any_rows(&(QuantForm){32, form->offset, false}, rows, cols, n_cols, sums);
    else
        any_rows(&(QuantForm){16, form->offset, false}, rows, cols, n_cols, sums);
}
#endif
