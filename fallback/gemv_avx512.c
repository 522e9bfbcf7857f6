/* Rows of block-quantised weights times one q8_act column, straight from their blocks: the sums are those of
 * dot.h, bit for bit. Four rows at a time share what is made of the column. */
#include "fallback/spans_avx512.h"

#ifdef RP_X86

typedef struct Lanes {
    __m512 acc;
    __m256 low; /* the upper four */
} Lanes;

INLINE void add_span(const QuantForm *form, Lanes *s, const Span *w, const ColumnSpan *x) {
    const __m512 scale = by_unit(_mm256_mul_ps(w->scale_min, x->scale_sum));
    s->acc             = _mm512_fmadd_ps(scale, lane_dots(form, w->a, w->b, x), s->acc);
    if (form->has_min) s->low = _mm256_fmadd_ps(w->scale_min, x->scale_sum, s->low);
}

/* What one load holds of n_rows rows: all its spans, or of a last one `units` units. */
INLINE void add_load(const SpanType *t, const char *w, size_t stride, int n_rows, int units,
                     const DotColumn *x, int64_t i, size_t ahead, Lanes *s) {
    ColumnSpan column[MAX_SPANS];
    for (int h = 0; h < t->n_spans; h++)
        column[h] = column_span(&t->form, x, i + h * RP_SPAN_UNITS * t->form.unit, units);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        Span        spans[MAX_SPANS];
        const char *p = w + (size_t)r * stride;
        prefetch(p + ahead, t->bytes);
        t->load(p, units, spans);
        for (int h = 0; h < t->n_spans; h++) add_span(&t->form, &s[r], &spans[h], &column[h]);
    }
}

INLINE __m128 rows_times_column(const SpanType *t, const char *w, size_t stride, int n_rows, int64_t n,
                                const DotColumn *x, size_t ahead) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    Lanes         s[RP_DOT_ROWS];
    __m512        acc[RP_DOT_ROWS];
    int64_t       i = 0;
    for (int r = 0; r < RP_DOT_ROWS; r++) s[r] = (Lanes){_mm512_setzero_ps(), _mm256_setzero_ps()};
    for (; i + elems <= n; i += elems, w += t->bytes)
        add_load(t, w, stride, n_rows, RP_SPAN_UNITS, x, i, ahead, s);
    if (t->n_spans == 1 && i < n) add_load(t, w, stride, n_rows, (int)((n - i) / 32), x, i, ahead, s);
    for (int r = 0; r < RP_DOT_ROWS; r++) acc[r] = s[r].acc;
    const __m512 l01 =
        _mm512_shuffle_f32x4(_mm512_castps256_ps512(s[0].low), _mm512_castps256_ps512(s[1].low), 0x55);
    const __m512 l23 =
        _mm512_shuffle_f32x4(_mm512_castps256_ps512(s[2].low), _mm512_castps256_ps512(s[3].low), 0x55);
    return four_results(acc, _mm512_shuffle_f32x4(l01, l23, 0x88));
}

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const size_t ahead = rows_ahead(stride);
    int64_t      m     = 0;
    for (; m + RP_DOT_ROWS <= n_rows; m += RP_DOT_ROWS, w += RP_DOT_ROWS * stride)
        _mm_storeu_ps(y + m, rows_times_column(t, w, stride, RP_DOT_ROWS, n, x, ahead));
    for (; m < n_rows; m++, w += stride) _mm_store_ss(y + m, rows_times_column(t, w, stride, 1, n, x, ahead));
}

INLINE void store_span(const QuantForm *form, const Span *s, int64_t at, DotRows *out) {
    uint8_t *q = out->q + at * RP_SPAN_UNITS * form->unit;
    _mm512_store_si512(q, s->a);
    if (form->unit == 32) _mm512_store_si512(q + 64, s->b);
    _mm512_store_ps(out->scale + at * RP_LANES, by_unit(s->scale_min));
    if (form->has_min) _mm_store_ps(out->min + at * RP_SPAN_UNITS, _mm256_extractf128_ps(s->scale_min, 1));
}

INLINE void unpack(const SpanType *t, const char *w, int r, DotRows *out) {
    const int64_t span = RP_SPAN_UNITS * t->form.unit, elems = t->n_spans * span;
    for (int64_t i = 0; i < out->n; i += elems, w += t->bytes) {
        Span spans[MAX_SPANS];
        prefetch_ahead(w, t->bytes);
        if (i + elems <= out->n)
            t->load(w, RP_SPAN_UNITS, spans);
        else
            t->load(w, (int)((out->n - i) / 32), spans);
        for (int h = 0; h < t->n_spans; h++)
            store_span(&t->form, &spans[h], (i / span + h) * out->n_rows + r, out);
    }
}

#define KERNELS(ID, name, Block, spans, ...)                                                                 \
    RP_TARGET_AVX512 static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n,        \
                                             const DotColumn *x, float *y) {                                 \
        const SpanType t = {load_##name, spans, sizeof(Block) * (spans == 1 ? 4 : 1), {__VA_ARGS__}};        \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                \
    }                                                                                                        \
    RP_TARGET_AVX512 static void unpack_##name(const char *w, int r, DotRows *out) {                         \
        const SpanType t = {load_##name, spans, sizeof(Block) * (spans == 1 ? 4 : 1), {__VA_ARGS__}};        \
        unpack(&t, w, r, out);                                                                               \
    }
SPAN_TYPES(KERNELS)
#undef KERNELS

#define ENTRY(ID, name, ...) [RP_##ID] = gemv_##name,

GemvFunction *rp_gemv_avx512(RpDtype dtype) {
    static GemvFunction *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    return table[dtype];
}
#undef ENTRY
#define ENTRY(ID, name, ...) [RP_##ID] = unpack_##name,

void rp_unpack_row_avx512(RpDtype dtype, const char *blocks, int r, DotRows *out) {
    typedef void         Unpack(const char *w, int r, DotRows *out);
    static Unpack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    table[dtype](blocks, r, out);
}
#undef ENTRY
#endif
