/* Rows of block-quantised weights times one q8_act column, straight from their blocks: the sums are those of
 * dot.h, bit for bit. Four rows at a time share what is made of the column. */
#include "fallback/spans_avx2.h"

#ifdef RP_X86

typedef struct Lanes {
    __m256 acc[PAIRS];
    __m256 low; /* the upper four */
} Lanes;

INLINE void add_span(const QuantForm *form, Lanes *s, const Span *w, const ColumnSpan *x) {
    const __m128 scale = _mm256_castps256_ps128(_mm256_mul_ps(w->scale_min, x->scale_sum));
    for (int h = 0; h < PAIRS; h++)
        s->acc[h] = _mm256_fmadd_ps(
            by_unit(scale, h), lane_dots(form, w->a[h], w->b[h], x->a[h], x->b[h], x->offset[h]), s->acc[h]);
    if (form->has_min) s->low = _mm256_fmadd_ps(w->scale_min, x->scale_sum, s->low);
}

/* A block of n_rows rows, or four blocks, or `units` last ones. */
INLINE void add_load(const SpanType *t, const char *w, size_t stride, int n_rows, int units,
                     const DotColumn *x, int64_t i, size_t ahead, Lanes *s) {
    ColumnSpan column[MAX_SPANS];
    for (int j = 0; j < t->n_spans; j++)
        column[j] = column_span(&t->form, x, i + j * RP_SPAN_UNITS * t->form.unit);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const char *p = w + (size_t)r * stride;
        prefetch(p + ahead, t->bytes);
        for (int j = 0; j < t->n_spans; j++) {
            Span span;
            t->load(p, j, units, &span);
            add_span(&t->form, &s[r], &span, &column[j]);
        }
    }
}

/* A column and its last span, where that is not whole. */
typedef struct Column {
    DotColumn  all, last;
    PaddedSpan padded;
} Column;

INLINE __m128 rows_times_column(const SpanType *t, const char *w, size_t stride, int n_rows, int64_t n,
                                const Column *x, size_t ahead) {
    const int64_t elems = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    Lanes         s[RP_DOT_ROWS];
    __m128        acc[RP_DOT_ROWS], low[RP_DOT_ROWS];
    int64_t       i = 0;
    for (int r = 0; r < RP_DOT_ROWS; r++)
        s[r] = (Lanes){
            {_mm256_setzero_ps(), _mm256_setzero_ps()},
            _mm256_setzero_ps()
        };
    for (; i + elems <= n; i += elems, w += t->bytes)
        add_load(t, w, stride, n_rows, RP_SPAN_UNITS, &x->all, i, ahead, s);
    if (t->n_spans == 1 && i < n) add_load(t, w, stride, n_rows, (int)((n - i) / 32), &x->last, 0, ahead, s);
    for (int r = 0; r < RP_DOT_ROWS; r++) {
        acc[r] = halve_lanes(s[r].acc[0], s[r].acc[1]);
        low[r] = _mm256_extractf128_ps(s[r].low, 1);
    }
    return _mm_add_ps(four_small_trees(acc), four_small_trees(low));
}

INLINE void gemv(const SpanType *t, const char *w, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const int64_t span = RP_SPAN_UNITS * t->form.unit, whole = n / span * span;
    const size_t  ahead = rows_ahead(stride);
    int64_t       m     = 0;
    Column        column;
    column.all = column.last = *x;
    if (whole < n) column.last = padded(x, whole, (int)((n - whole) / 32), &column.padded);
    for (; m + RP_DOT_ROWS <= n_rows; m += RP_DOT_ROWS, w += RP_DOT_ROWS * stride)
        _mm_storeu_ps(y + m, rows_times_column(t, w, stride, RP_DOT_ROWS, n, &column, ahead));
    for (; m < n_rows; m++, w += stride)
        _mm_store_ss(y + m, rows_times_column(t, w, stride, 1, n, &column, ahead));
}

INLINE void store_span(const QuantForm *form, const Span *s, int64_t at, DotRows *out) {
    uint8_t *q = out->q + at * RP_SPAN_UNITS * form->unit;
    for (int h = 0; h < PAIRS; h++) {
        _mm256_store_si256((void *)(q + 32 * h), s->a[h]);
        if (form->unit == 32) _mm256_store_si256((void *)(q + 64 + 32 * h), s->b[h]);
    }
    _mm_store_ps(out->scale + at * RP_SPAN_UNITS, _mm256_castps256_ps128(s->scale_min));
    if (form->has_min) _mm_store_ps(out->min + at * RP_SPAN_UNITS, _mm256_extractf128_ps(s->scale_min, 1));
}

INLINE void unpack(const SpanType *t, const char *w, int r, DotRows *out) {
    const int64_t span = RP_SPAN_UNITS * t->form.unit, elems = t->n_spans * span;
    for (int64_t i = 0; i < out->n; i += elems, w += t->bytes) {
        prefetch_ahead(w, t->bytes);
        for (int j = 0; j < t->n_spans; j++) {
            Span s;
            if (t->n_spans > 1 || i + elems <= out->n) /* those in blocks of 256 are whole */
                t->load(w, j, RP_SPAN_UNITS, &s);
            else
                t->load(w, j, (int)((out->n - i) / 32), &s);
            store_span(&t->form, &s, (i / span + j) * out->n_rows + r, out);
        }
    }
}

#define KERNELS(ID, name, Block, spans, ...)                                                                 \
    RP_TARGET_AVX2 static void gemv_##name(const char *w, size_t stride, int64_t n_rows, int64_t n,          \
                                           const DotColumn *x, float *y) {                                   \
        const SpanType t = {load_##name, spans, sizeof(Block) * (spans == 1 ? 4 : 1), {__VA_ARGS__}};        \
        gemv(&t, w, stride, n_rows, n, x, y);                                                                \
    }                                                                                                        \
    RP_TARGET_AVX2 static void unpack_##name(const char *w, int r, DotRows *out) {                           \
        const SpanType t = {load_##name, spans, sizeof(Block) * (spans == 1 ? 4 : 1), {__VA_ARGS__}};        \
        unpack(&t, w, r, out);                                                                               \
    }
SPAN_TYPES(KERNELS)
#undef KERNELS

#define ENTRY(ID, name, ...) [RP_##ID] = gemv_##name,

GemvFunction *rp_gemv_avx2(RpDtype dtype) {
    static GemvFunction *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    return table[dtype];
}
#undef ENTRY
#define ENTRY(ID, name, ...) [RP_##ID] = unpack_##name,

void rp_unpack_row_avx2(RpDtype dtype, const char *blocks, int r, DotRows *out) {
    typedef void         Unpack(const char *w, int r, DotRows *out);
    static Unpack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    table[dtype](blocks, r, out);
}
#undef ENTRY
#endif
