/* Rows of block-quantised weights times one q8_act column, straight from their blocks. What is made of the column lies
 * ready for many rows; of four rows at a time a register holds the sums of four units of each. */
#include "fallback/gemv_load_avx512.h"

#ifdef RP_X86

enum {
    ROWS  = 4,
    BLOCK = 256,  /* rows, whole groups of ROWS, that a piece of the column is made ready for */
    PIECE = 16384 /* elements of it: whole spans and blocks */
};

/* Each unit's four lanes of four rows, added: four rows in each quarter. */
INLINE __m512i sums_of_units(const __m512i *v) {
    const __m512i v01 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i v23 =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(v01, v23), _mm512_unpackhi_epi64(v01, v23));
}

/* Where the rows are in memory, and what is asked of it while `at` bytes of each are multiplied: the same bytes of a group
 * further on, one after the other. Of rows that are taken in pieces it is the bytes of the first row. */
typedef struct Rows {
    const char *row[ROWS];
    size_t      ahead, step;
} Rows;

/* What one load holds of the rows: all its spans, or of a last one `units` units. */
INLINE __m512 add_load(const SpanType *t, const Rows *rows, size_t at, int units, const ColumnSpan *x,
                       __m512 parts) {
    SpanScales w[MAX_SPANS];
    __m512i    lanes[MAX_SPANS][ROWS];
    rp_prefetch(rows->row[0] + rows->ahead + rows->step * at, ROWS * t->bytes);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        Span s[MAX_SPANS];
        t->load(rows->row[r] + at, units, s);
        for (int h = 0; h < t->n_spans; h++) lanes[h][r] = lane_dots(&t->form, s[h].a, s[h].b, &x[h]);
    }
    t->scales(rows->row, at, units, w);
    for (int h = 0; h < t->n_spans; h++) {
        const __m512 dots = _mm512_cvtepi32_ps(sums_of_units(lanes[h]));
        parts             = _mm512_fmadd_ps(_mm512_mul_ps(w[h].scale, x[h].scale), dots, parts);
        if (t->form.has_min) parts = _mm512_fmadd_ps(w[h].min, x[h].sum, parts);
    }
    return parts;
}

/* A piece of n elements of the rows; `at` is where its bytes begin. */
INLINE __m512 add_piece(const SpanType *t, const Rows *rows, size_t at, int64_t n, const ColumnSpan *x,
                        __m512 parts) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    for (; n >= elems; n -= elems, at += t->bytes, x += t->n_spans)
        parts = add_load(t, rows, at, RP_SPAN_UNITS, x, parts);
    if (t->n_spans == 1 && n > 0) parts = add_load(t, rows, at, (int)(n / 32), x, parts);
    return parts;
}

INLINE void column_piece(const QuantForm *form, const DotColumn *x, int64_t from, int64_t end,
                         ColumnSpan *out) {
    const int64_t span = RP_SPAN_UNITS * form->unit;
    for (int64_t i = from; i < end; i += span, out++)
        *out = column_span(form, x, i, end - i < span ? (int)((end - i) / 32) : RP_SPAN_UNITS);
}

/* At most BLOCK rows. */
INLINE void block_of_rows(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                          const DotColumn *x, float *y) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    Rows          rows  = {.ahead = rp_rows_ahead(ROWS * stride), .step = n <= PIECE ? ROWS : 1};
    ColumnSpan    column[PIECE / RP_SPAN_UNITS / 16];
    __m512        parts[BLOCK / ROWS];
    for (int64_t from = 0; from < n; from += PIECE) {
        const int64_t end = n - from < PIECE ? n : from + PIECE;
        const size_t  at  = (size_t)(from / elems) * t->bytes;
        column_piece(&t->form, x, from, end, column);
        for (int64_t m = 0; m < n_rows; m += ROWS) {
            const __m512 before = from == 0 ? _mm512_setzero_ps() : parts[m / ROWS];
            rp_take_rows(w + (size_t)m * stride, stride, n_rows - m, ROWS, rows.row);
            parts[m / ROWS] = add_piece(t, &rows, at, end - from, column, before);
        }
    }
    for (int64_t m = 0; m < n_rows; m += ROWS) {
        const __m512 v    = parts[m / ROWS];
        const int    left = n_rows - m < ROWS ? (int)(n_rows - m) : ROWS;
        const __m256 two  = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
        _mm_mask_storeu_ps(y + m, (__mmask8)((1 << left) - 1),
                           _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1)));
    }
}

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    for (int64_t m = 0; m < n_rows; m += BLOCK)
        block_of_rows(t, w + (size_t)m * stride, stride, n_rows - m < BLOCK ? n_rows - m : BLOCK, n, x,
                      y + m);
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
