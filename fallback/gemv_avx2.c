/* Rows of block-quantised weights times one q8_act column, straight from their blocks. Sums of four rows stand in one
 * vector, so that they are converted and scaled together; they share what is made of the column. */
#include "fallback/gemv_load_avx2.h"

#ifdef RP_X86

/* A pair of units of the column, as those of the weights; `offset` is what the weights' offset adds to sums of
 * 16 bits, two a row. */
typedef struct ColumnPair {
    __m256i q[2], offset;
    __m256  scale, sum;
} ColumnPair;

/* A column and its last span, where that is not whole. */
typedef struct Column {
    DotColumn all, last;
    int8_t    q[128];
    float     scale[4], sum[8];
} Column;

/* The last span is filled up with zeros. Its scales and sums are -0 there, which changes no part, not even -0. */
INLINE void fill_last(const DotColumn *x, int64_t i, int units, Column *out) {
    for (int u = 0; u < RP_SPAN_UNITS; u++) {
        const bool    there = u < units;
        const __m256i q     = there ? load32(x->q + i + 32 * u) : _mm256_setzero_si256();
        _mm256_storeu_si256((void *)(out->q + 32 * u), q);
        out->scale[u] = there ? x->scale[i / 32 + u] : -0.0f;
        for (int k = 2 * u; k < 2 * u + 2; k++) out->sum[k] = there ? x->sum[i / RP_GROUP + k] : -0.0f;
    }
    out->last = (DotColumn){out->q, out->scale, out->sum};
}

/* Pair h of four values, one a unit, for four rows. */
INLINE __m256 for_rows(__m128 four, int h) {
    const __m256i lanes =
        _mm256_or_si256(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * h));
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), lanes);
}

INLINE void column_quants(const SpanType *t, const int8_t *q, __m256i out[2]) {
    if (pair_shape(t) == HALVES) {
        out[0] = two_halves(q, q + 32);
        out[1] = two_halves(q + 16, q + 48);
    } else {
        out[0] = load32(q);
        out[1] = pair_shape(t) == WHOLE ? load32(q + 32) : out[0];
    }
}

/* Types that have minima have no offset, and a sign needs none. */
INLINE __m256i column_offset(const SpanType *t, const __m256i q[2]) {
    const __m256i every = _mm256_set1_epi8((char)t->form.offset);
    if (t->form.has_min || t->form.offset == SIGNED) return _mm256_setzero_si256();
    __m256i sum = _mm256_maddubs_epi16(every, q[0]);
    if (pair_shape(t) == HALVES) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(every, q[1]));
    sum = _mm256_hadd_epi16(sum, sum);
    return _mm256_hadd_epi16(sum, sum);
}

/* Pair h of the span that begins with element i. */
INLINE void column_pair(const SpanType *t, const DotColumn *x, int64_t i, int h, ColumnPair *out) {
    const float *scale = x->scale + i / 32, *sum = x->sum + i / RP_GROUP;
    const __m128 scales =
        t->form.unit == 32 ? _mm_loadu_ps(scale) : _mm_setr_ps(scale[0], scale[0], scale[1], scale[1]);
    const __m128 sums = t->form.has_min ? _mm_hadd_ps(_mm_loadu_ps(sum), _mm_loadu_ps(sum + 4)) : scales;
    column_quants(t, x->q + i + 2 * h * t->form.unit, out->q);
    out->offset = column_offset(t, out->q);
    out->scale  = for_rows(scales, h);
    out->sum    = for_rows(sums, h);
}

/* ---- sums of a pair of units of four rows ---- */

/* Two units in the halves of each vector, in sums of two products, or of four where units have 32. With the offset
 * off a row's two sums fit in 16 bits, whatever the sums before were: 32 * 127 * 8 = 32512 of Q6_K, of the others at
 * most 16 * 127 * 16 = 32512 (quantize makes no -128). Where there is no offset, sums of 8 products fit:
 * 31 * 127 * 8 = 31496. */
INLINE __m256i sums_of_halves(const SpanType *t, const __m256i v[ROWS], __m256i offset) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    if (t->form.has_min) return _mm256_hadd_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    return _mm256_madd_epi16(_mm256_sub_epi16(_mm256_hadd_epi16(a, b), offset), ones);
}

/* The lower and upper halves of both, added. */
INLINE __m256i add_halves(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* A unit in each vector, in sums of two products; the same limit. */
INLINE __m256i half_sums(const __m256i v[ROWS]) {
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    return _mm256_madd_epi16(_mm256_hadd_epi16(a, b), _mm256_set1_epi16(1));
}

/* The same of sums in 32 bits. */
INLINE __m256i half_sums32(const __m256i v[ROWS]) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

/* Two magnitudes give 128 * 127 * 2 = 32512 at most. */
INLINE __m256i signed_dot(__m256i w, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

INLINE __m256i pair_sums(const SpanType *t, const char *const *p, int j, int h, const ColumnPair *x) {
    __m256i v[ROWS], w[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256i q[2];
        t->load(p[r], j, h, q);
        if (t->form.offset == SIGNED) {
            v[r] = signed_dot(q[0], x->q[0]);
            w[r] = signed_dot(q[1], x->q[1]);
            continue;
        }
        v[r] = _mm256_maddubs_epi16(q[0], x->q[0]);
        w[r] = _mm256_maddubs_epi16(q[1], x->q[1]);
        if (pair_shape(t) == HALVES) v[r] = _mm256_add_epi16(v[r], w[r]);
    }
    if (t->form.offset == SIGNED) return add_halves(half_sums32(v), half_sums32(w));
    if (pair_shape(t) == WHOLE) return add_halves(half_sums(v), half_sums(w));
    return sums_of_halves(t, v, x->offset);
}

/* ---- rows ---- */

/* One load of the rows whose blocks are at p, of which `pairs` pairs are there. */
INLINE void add_load(const SpanType *t, const char *const *p, int pairs, const DotColumn *x,
                     __m256 part[PAIRS]) {
    Header header;
    load_header(t, p, &header);
#pragma GCC unroll 8
    for (int k = 0; k < PAIRS * t->n_spans; k++) {
        if (k >= pairs) break;
        const int  j = k / PAIRS, h = k % PAIRS;
        ColumnPair column;
        PairScales s;
        column_pair(t, x, j * RP_SPAN_UNITS * t->form.unit, h, &column);
        t->scales(p, &header, j, h, &s);
        const __m256 dot = _mm256_cvtepi32_ps(pair_sums(t, p, j, h, &column));
        part[h]          = _mm256_fmadd_ps(_mm256_mul_ps(s.scale, column.scale), dot, part[h]);
        if (t->form.has_min) part[h] = _mm256_fmadd_ps(s.min, column.sum, part[h]);
    }
}

/* The last blocks of 32 of rows, with zeros after them as a span. */
typedef struct LastBlocks {
    char blocks[ROWS][MAX_BYTES];
} LastBlocks;

/* The results of the rows at p. */
INLINE void rows_times_column(const SpanType *t, const char **p, int64_t n, const Column *x,
                              const char *ahead, LastBlocks *last, float *y) {
    const int64_t elems       = t->n_spans * RP_SPAN_UNITS * t->form.unit;
    DotColumn     column      = x->all;
    __m256        part[PAIRS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t i = 0; i < n; i += elems) {
        rp_prefetch(ahead, ROWS * span_bytes(t));
        ahead += ROWS * span_bytes(t);
        int pairs = PAIRS * t->n_spans;
        if (blocks_of_32(t) && n - i < elems) {
            const int units = (int)((n - i) / 32);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                if (units % 2 == 0) break;
                copy_last_blocks(t, p[r], units, last->blocks[r]);
                p[r] = last->blocks[r];
            }
            column = x->last;
            pairs  = (units + 1) / 2;
        }
        add_load(t, p, pairs, &column, part);
        for (int r = 0; r < ROWS; r++) p[r] += span_bytes(t);
        column.q += elems, column.scale += elems / 32, column.sum += elems / RP_GROUP;
    }
    _mm_storeu_ps(y, halve_lanes(part[0], part[1]));
}

INLINE void gemv(const SpanType *t, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                 const DotColumn *x, float *y) {
    const int64_t span = RP_SPAN_UNITS * t->form.unit, whole = n / span * span;
    const size_t  ahead = rp_rows_ahead(ROWS * stride);
    LastBlocks    last;
    Column        column;
    column.all = *x;
    if (blocks_of_32(t) && whole < n) {
        memset(&last, 0, sizeof last);
        fill_last(x, whole, (int)((n - whole) / 32), &column);
    }
    for (int64_t m = 0; m < n_rows; m += ROWS, rows += ROWS * stride) {
        const int64_t left = n_rows - m;
        const char   *row[ROWS];
        float         all[ROWS];
        rp_take_rows(rows, stride, left, ROWS, row);
        rows_times_column(t, row, n, &column, rows + ahead, &last, all);
        memcpy(y + m, all, (size_t)(left < ROWS ? left : ROWS) * sizeof *y);
    }
}

typedef void Gemv(const char *rows, size_t stride, int64_t n_rows, int64_t n, const DotColumn *x, float *y);

#define GEMV(ID, name, ...)                                                                                  \
    RP_TARGET_AVX2 static void gemv_##name(const char *rows, size_t stride, int64_t n_rows, int64_t n,       \
                                           const DotColumn *x, float *y) {                                   \
        const SpanType t = SPAN_TYPE(name, __VA_ARGS__);                                                     \
        gemv(&t, rows, stride, n_rows, n, x, y);                                                             \
    }
SPAN_TYPES(GEMV)
#undef GEMV

#define ENTRY(ID, name, ...) [RP_##ID] = gemv_##name,
void rp_gemv_avx2(RpDtype dtype, const char *rows, size_t stride, int64_t n_rows, int64_t n,
                  const DotColumn *x, float *y) {
    static Gemv *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ENTRY)};
    table[dtype](rows, stride, n_rows, n, x, y);
}
#undef ENTRY
#endif
