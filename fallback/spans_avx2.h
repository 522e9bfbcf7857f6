/* spans_avx2.h - spans of weights and of columns in registers, as dot.h defines them, in two pairs of units.
 *
 * Each type has one function that takes a span from the bytes of a block, or of four; decode multiplies it at
 * once, a prefill stores it for many columns. Q8_0 keeps its sign here instead of an offset of 128. */
#ifndef FALLBACK_SPANS_AVX2_H
#define FALLBACK_SPANS_AVX2_H

#include "fallback/blocks_x86.h"

#ifdef RP_X86

#define INLINE INLINE_AVX2

enum { PAIRS = 2, MAX_SPANS = 4, SIGNED = 128 /* the offset that is kept as a sign */ };

/* Of each pair the first and second halves of its quants, or its units of 16 in a; four scales, and above them
 * four minima. */
typedef struct Span {
    __m256i a[PAIRS], b[PAIRS];
    __m256  scale_min;
} Span;

/* A span of a column; `scale_sum` as `scale_min`; `offset` is what the weights' offset adds to sums in 16 bits,
 * each of which is half a lane. */
typedef struct ColumnSpan {
    __m256i a[PAIRS], b[PAIRS], offset[PAIRS];
    __m256  scale_sum;
} ColumnSpan;

/* Span j of a block; of types in blocks of 32 `units` blocks, 1 to 4, and zeros after them. */
typedef void LoadSpan(const char *block, int j, int units, Span *out);

typedef struct SpanType {
    LoadSpan *load;
    int       n_spans;
    size_t    bytes;
    QuantForm form;
} SpanType;

INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
INLINE __m256i twice(const void *p) { return _mm256_broadcastsi128_si256(load16(p)); }

/* Two of four values, one a unit, each to the four lanes of its unit. */
INLINE __m256 by_unit(__m128 four, int pair) {
    const __m256i lanes =
        pair == 0 ? _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1) : _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), lanes);
}

/* ---- types in blocks of 32: a span is four of them ---- */

/* 16 bytes of each block of a pair. */
INLINE __m256i bytes_of_blocks(const char *p, size_t stride, int pair, int units) {
    p += (size_t)(2 * pair) * stride;
    if (units <= 2 * pair) return _mm256_setzero_si256();
    const __m256i first = _mm256_zextsi128_si256(load16(p));
    return units == 2 * pair + 1 ? first : _mm256_inserti128_si256(first, load16(p + stride), 1);
}

INLINE void nibbles_of_blocks(const char *p, size_t stride, int units, Span *s) {
    for (int h = 0; h < PAIRS; h++) {
        const __m256i v = bytes_of_blocks(p, stride, h, units);
        s->a[h]         = low_nibbles(v);
        s->b[h]         = high_nibbles(v);
    }
}

INLINE void load_q4_0(const char *p, int j, int units, Span *s) {
    (void)j;
    nibbles_of_blocks(p + 2, sizeof(BlockQ4_0), units, s);
    s->scale_min = scales_of_blocks(p, sizeof(BlockQ4_0), units);
}

INLINE void load_q4_1(const char *p, int j, int units, Span *s) {
    (void)j;
    nibbles_of_blocks(p + 4, sizeof(BlockQ4_1), units, s);
    s->scale_min = scales_and_minima(words_of_blocks(p, sizeof(BlockQ4_1), units));
}

/* 16 where the bit of an element is set; `first` is the byte of its unit's word where they begin. */
INLINE __m256i fifth_bits(__m256i words, int first) {
    const __m256i bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, /* one unit */
                                           4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5);
    const __m256i bit   = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i v     = _mm256_shuffle_epi8(words, _mm256_add_epi8(bytes, _mm256_set1_epi8((char)first)));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), _mm256_set1_epi8(16));
}

/* Adds to each element the fifth bit that stands in a word a block. */
INLINE void add_fifth_bits(__m128i words, Span *s) {
    const __m256i both = _mm256_broadcastsi128_si256(words);
    for (int h = 0; h < PAIRS; h++) {
        s->a[h] = _mm256_or_si256(s->a[h], fifth_bits(both, 8 * h));
        s->b[h] = _mm256_or_si256(s->b[h], fifth_bits(both, 8 * h + 2));
    }
}

INLINE void load_q5_0(const char *p, int j, int units, Span *s) {
    (void)j;
    nibbles_of_blocks(p + 6, sizeof(BlockQ5_0), units, s);
    s->scale_min = scales_of_blocks(p, sizeof(BlockQ5_0), units);
    add_fifth_bits(words_of_blocks(p + 2, sizeof(BlockQ5_0), units), s);
}

INLINE void load_q5_1(const char *p, int j, int units, Span *s) {
    (void)j;
    nibbles_of_blocks(p + 8, sizeof(BlockQ5_1), units, s);
    s->scale_min = scales_and_minima(words_of_blocks(p, sizeof(BlockQ5_1), units));
    add_fifth_bits(words_of_blocks(p + 4, sizeof(BlockQ5_1), units), s);
}

INLINE void load_q8_0(const char *p, int j, int units, Span *s) {
    (void)j;
    for (int h = 0; h < PAIRS; h++) {
        s->a[h] = bytes_of_blocks(p + 2, sizeof(BlockQ8_0), h, units);
        s->b[h] = bytes_of_blocks(p + 18, sizeof(BlockQ8_0), h, units);
    }
    s->scale_min = scales_of_blocks(p, sizeof(BlockQ8_0), units);
}

INLINE void load_mxfp4(const char *p, int j, int units, Span *s) {
    (void)j;
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m128i words = words_of_blocks(p, sizeof(BlockMXFP4), units);
    nibbles_of_blocks(p + 1, sizeof(BlockMXFP4), units, s);
    for (int h = 0; h < PAIRS; h++) {
        s->a[h] = _mm256_shuffle_epi8(values, s->a[h]);
        s->b[h] = _mm256_shuffle_epi8(values, s->b[h]);
    }
    s->scale_min = _mm256_zextps128_ps256(mxfp4_scales(_mm_and_si128(words, _mm_set1_epi32(255))));
}

/* ---- types in blocks of 256 ---- */

INLINE __m256 scales_k(const char *p, int j) {
    const __m128i v = load16(p), bytes = scale_bytes_k(v);
    const __m256i which = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m256  d     = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(scale_min_k(v)), which);
    const __m128i eight = j == 0 ? bytes : _mm_unpackhi_epi64(bytes, bytes);
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight)));
}

/* Of 64 elements the first 32 are low nibbles, the others high: here 16 of each. */
INLINE __m256i nibbles_k(const uint8_t *qs) {
    return low_nibbles(_mm256_srlv_epi64(twice(qs), _mm256_setr_epi64x(0, 0, 4, 4)));
}

INLINE void load_q4_k(const char *p, int j, int units, Span *s) {
    (void)units;
    const BlockQ4_K *block = (const BlockQ4_K *)(const void *)p;
    for (int h = 0; h < PAIRS; h++) {
        s->a[h] = nibbles_k(block->qs + 64 * j + 32 * h);
        s->b[h] = nibbles_k(block->qs + 64 * j + 32 * h + 16);
    }
    s->scale_min = scales_k(p, j);
}

/* 16 where bit 2m of a byte, and in the upper half bit 2m + 1, is set. */
INLINE __m256i fifth_bits_k(__m256i v, int m) {
    const __m256i moved =
        m < 2 ? _mm256_sllv_epi64(v, _mm256_setr_epi64x(4 - 2 * m, 4 - 2 * m, 3 - 2 * m, 3 - 2 * m))
              : _mm256_srlv_epi64(v, _mm256_setr_epi64x(2 * m - 4, 2 * m - 4, 2 * m - 3, 2 * m - 3));
    return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

INLINE void load_q5_k(const char *p, int j, int units, Span *s) {
    (void)units;
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m256i    a = twice(block->qh), b = twice(block->qh + 16);
    for (int h = 0; h < PAIRS; h++) {
        const uint8_t *qs = block->qs + 64 * j + 32 * h;
        s->a[h]           = _mm256_or_si256(nibbles_k(qs), fifth_bits_k(a, 2 * j + h));
        s->b[h]           = _mm256_or_si256(nibbles_k(qs + 16), fifth_bits_k(b, 2 * j + h));
    }
    s->scale_min = scales_k(p, j);
}

/* Bits 2m and 2m + 1 of each byte as the fifth and sixth. */
INLINE __m256i fifth_sixth_bits(__m256i v, int m) {
    const __m256i moved = m < 2 ? _mm256_slli_epi16(v, 4 - 2 * m) : _mm256_srli_epi16(v, 2 * m - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(0x30));
}

INLINE void load_q6_k(const char *p, int j, int units, Span *s) {
    (void)units;
    const BlockQ6_K *block = (const BlockQ6_K *)(const void *)p;
    const __m256i    qh    = load32(block->qh + 32 * (j / 2));
    const __m128     d     = _mm_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(block->d)));
    const __m128i    four = _mm_cvtepi8_epi32(_mm_cvtsi32_si128(word32((const char *)block->scales + 4 * j)));
    for (int h = 0; h < PAIRS; h++) {
        const __m256i ql        = load32(block->ql + 64 * (j / 2) + 32 * h);
        const __m256i four_bits = j % 2 == 0 ? low_nibbles(ql) : high_nibbles(ql);
        s->a[h]                 = _mm256_or_si256(four_bits, fifth_sixth_bits(qh, j % 2 * 2 + h));
        s->b[h]                 = _mm256_setzero_si256();
    }
    s->scale_min = _mm256_zextps128_ps256(_mm_mul_ps(d, _mm_cvtepi32_ps(four)));
}

/* ---- columns ---- */

/* The last span of a column of blocks of 32, filled up with zeros. */
typedef struct PaddedSpan {
    int8_t q[128];
    float  scale[4], sum[8];
} PaddedSpan;

INLINE DotColumn padded(const DotColumn *x, int64_t i, int units, PaddedSpan *p) {
    for (int u = 0; u < RP_SPAN_UNITS; u++) {
        const bool    there = u < units;
        const __m256i q     = there ? load32(x->q + i + 32 * u) : _mm256_setzero_si256();
        _mm256_storeu_si256((void *)(p->q + 32 * u), q);
        p->scale[u]       = there ? x->scale[i / 32 + u] : 0.0f;
        p->sum[2 * u]     = there ? x->sum[i / RP_GROUP + 2 * u] : 0.0f;
        p->sum[2 * u + 1] = there ? x->sum[i / RP_GROUP + 2 * u + 1] : 0.0f;
    }
    return (DotColumn){p->q, p->scale, p->sum};
}

INLINE __m256i two_halves(const int8_t *a, const int8_t *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
}

/* Taken off in sums of 16 bits. Types that have minima have none. */
INLINE bool has_offset(const QuantForm *form) { return !form->has_min && form->offset != SIGNED; }

/* The first and second halves of a pair of units that starts at q, or the pair in a. */
INLINE void column_pair(const QuantForm *form, const int8_t *q, __m256i *a, __m256i *b, __m256i *offset) {
    const __m256i every      = _mm256_set1_epi8((char)form->offset);
    const bool    long_units = form->unit == 32;
    *a                       = long_units ? two_halves(q, q + 32) : load32(q);
    *b                       = long_units ? two_halves(q + 16, q + 48) : _mm256_setzero_si256();
    *offset                  = _mm256_setzero_si256();
    if (!has_offset(form)) return;
    *offset = _mm256_maddubs_epi16(every, *a);
    if (long_units) *offset = _mm256_add_epi16(*offset, _mm256_maddubs_epi16(every, *b));
}

/* One a unit. */
INLINE __m128 column_scales(const QuantForm *form, const float *scale) {
    if (form->unit == 32) return _mm_loadu_ps(scale);
    const __m128 pair = _mm_castsi128_ps(_mm_loadl_epi64((const void *)scale));
    return _mm_unpacklo_ps(pair, pair);
}

INLINE __m128 column_sums(const float *sum) {
    const __m128 low = _mm_loadu_ps(sum), high = _mm_loadu_ps(sum + 4);
    return _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd));
}

/* A whole span from element i on. */
INLINE ColumnSpan column_span(const QuantForm *form, const DotColumn *x, int64_t i) {
    ColumnSpan s;
    for (int h = 0; h < PAIRS; h++)
        column_pair(form, x->q + i + 2 * h * form->unit, &s.a[h], &s.b[h], &s.offset[h]);
    s.scale_sum = _mm256_zextps128_ps256(column_scales(form, x->scale + i / 32));
    if (form->has_min) s.scale_sum = _mm256_insertf128_ps(s.scale_sum, column_sums(x->sum + i / RP_GROUP), 1);
    return s;
}

/* Sums of the lanes of a pair. Two products and, of units of 32, four fit in 16 bits: 63 * 128 * 2 = 16128 of
 * Q6_K, 31 * 128 * 4 = 15872 of all others but Q8_0, whose two magnitudes give 128 * 127 * 2 = 32512 (quantize
 * makes no -128). */
INLINE __m256 lane_dots(const QuantForm *form, __m256i a, __m256i b, __m256i xa, __m256i xb, __m256i offset) {
    const __m256i ones = _mm256_set1_epi16(1);
    if (!form->has_min && form->offset == SIGNED) {
        const __m256i first  = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(xa, a));
        const __m256i second = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(xb, b));
        return _mm256_cvtepi32_ps(
            _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones)));
    }
    __m256i dot = _mm256_maddubs_epi16(a, xa);
    if (form->unit == 32) dot = _mm256_add_epi16(dot, _mm256_maddubs_epi16(b, xb));
    if (has_offset(form)) dot = _mm256_sub_epi16(dot, offset);
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(dot, ones));
}

/* ---- results ---- */

/* The trees of four times four lanes. */
INLINE __m128 four_small_trees(const __m128 *v) {
    const __m128 t01 = _mm_add_ps(_mm_movelh_ps(v[0], v[1]), _mm_movehl_ps(v[1], v[0]));
    const __m128 t23 = _mm_add_ps(_mm_movelh_ps(v[2], v[3]), _mm_movehl_ps(v[3], v[2]));
    return _mm_add_ps(_mm_shuffle_ps(t01, t23, 0x88), _mm_shuffle_ps(t01, t23, 0xdd));
}

INLINE __m128 halve_lanes(__m256 low, __m256 high) {
    const __m256 eight = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
#endif
#endif
