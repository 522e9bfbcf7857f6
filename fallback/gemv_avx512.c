/* Rows of block-quantised weights times one q8_act column, straight from their blocks. Four rows at a time share what
 * is made of the column, and a register holds the sums of four units of each. */
#include "fallback/spans_avx512.h"

#ifdef RP_X86

enum { ROWS = 4 };

/* Each unit's four lanes of four rows, added: four rows in each quarter. */
INLINE __m512i sums_of_units(const __m512i *v) {
    const __m512i v01 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i v23 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(v01, v23), _mm512_unpackhi_epi64(v01, v23));
}

/* What one load holds of the rows: all its spans, or of a last one `units` units. */
INLINE __m512 add_load(const SpanType *t, const char *const *row, size_t at, size_t ahead, int units,
                       const DotColumn *x, int64_t i, __m512 parts) {
    ColumnSpan column[MAX_SPANS];
    SpanScales w[MAX_SPANS];
    __m512i    lanes[MAX_SPANS][ROWS];
    prefetch(row[0] + ROWS * at + ahead, ROWS * t->bytes);
    for (int h = 0; h < t->n_spans; h++)
        column[h] = column_span(&t->form, x, i + h * RP_SPAN_UNITS * t->form.unit, units);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        Span s[MAX_SPANS];
        t->load(row[r] + at, units, s);
        for (int h = 0; h < t->n_spans; h++) lanes[h][r] = lane_dots(&t->form, s[h].a, s[h].b, &column[h]);
    }
    t->scales(row, at, units, w);
    for (int h = 0; h < t->n_spans; h++) {
        const __m512 dots = _mm512_cvtepi32_ps(sums_of_units(lanes[h]));
        parts             = _mm512_fmadd_ps(_mm512_mul_ps(w[h].scale, column[h].scale), dots, parts);
        if (t->form.has_min) parts = _mm512_fmadd_ps(w[h].min, column[h].sum, parts);
    }
    return parts;
}

INLINE __m128 rows_times_column(const SpanType *t, const char *const *row, int64_t n, const DotColumn *x,
                                size_t ahead) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    __m512        parts = _mm512_setzero_ps();
    int64_t       i     = 0;
    size_t        at    = 0;
    for (; i + elems <= n; i += elems, at += t->bytes)
        parts = add_load(t, row, at, ahead, RP_SPAN_UNITS, x, i, parts);
    if (t->n_spans == 1 && i < n) parts = add_load(t, row, at, ahead, (int)((n - i) / 32), x, i, parts);
    const __m256 two = _mm256_add_ps(_mm512_castps512_ps256(parts), _mm512_extractf32x8_ps(parts, 1));
    return _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1));
}

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const size_t ahead = rows_ahead(stride);
    for (int64_t m = 0; m < n_rows; m += ROWS, w += ROWS * stride) {
        const int64_t left = n_rows - m < ROWS ? n_rows - m : ROWS;
        const char   *row[ROWS];
        for (int r = 0; r < ROWS; r++) row[r] = w + (size_t)(r < left ? r : left - 1) * stride;
        _mm_mask_storeu_ps(y + m, (__mmask8)((1 << left) - 1), rows_times_column(t, row, n, x, ahead));
    }
}

#define GEMV(ID, name, Block, spans, ...)                                                                    \
    RP_TARGET_AVX512 static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n,        \
                                             const DotColumn *x, float *y) {                                 \
        const SpanType t = SPAN_TYPE(name, Block, spans, __VA_ARGS__);                                       \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                \
    }
SPAN_TYPES(GEMV)
#undef GEMV

void rp_gemv_avx512(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                    const DotColumn *x, float *y) {
    typedef void Gemv(const char *w, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);
#define ENTRY(ID, name, ...) [RP_##ID]       = gemv_##name,
    static Gemv *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
#undef ENTRY
    table[dtype](rows, stride, n_rows, n, x, y);
}
#endif
