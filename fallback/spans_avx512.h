/* spans_avx512.h - spans of weights and of columns in registers, as dot.h defines them.
 *
 * Each type has one function that takes a span, or a block of 256, from the bytes of the file; decode
 * multiplies it at once, a prefill stores it for many columns. */
#ifndef FALLBACK_SPANS_AVX512_H
#define FALLBACK_SPANS_AVX512_H

#include "fallback/blocks_x86.h"

#ifdef RP_X86
#define INLINE RP_TARGET_AVX512 static inline __attribute__((always_inline))

/* The halves of a span's quants, or its units of 16 in a; four scales, and above them four minima. */
typedef struct Span {
    __m512i a, b;
    __m256  scale_min;
} Span;

/* A span of a column; `scale_sum` as `scale_min`; `offset` is what the weights' offset adds to each lane. */
typedef struct ColumnSpan {
    __m512i a, b, offset;
    __m256  scale_sum;
} ColumnSpan;

enum { MAX_SPANS = 4 };

/* n_spans spans; of types in blocks of 32 one of `units` blocks, 1 to 4, and zeros after them. */
typedef void LoadSpans(const char *block, int units, Span *out);

typedef struct SpanType {
    LoadSpans *load;
    int        n_spans;
    size_t     bytes;
    QuantForm  form;
} SpanType;

INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

/* Four values, one a unit, each to the four lanes of its unit. */
INLINE __m512 by_unit(__m256 four) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(four));
}

/* First and second 16 bytes of four times 32. */
INLINE __m512i first_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), y);
}
INLINE __m512i second_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), y);
}

/* ---- types in blocks of 32: a span is four of them ---- */

/* 16 bytes of each block. */
INLINE __m512i bytes_of_blocks(const char *p, size_t stride, int units) {
    __m512i v = _mm512_zextsi128_si512(load16(p));
    if (units > 1) v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load16(p + stride));
    if (units > 2) v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load16(p + 2 * stride));
    if (units > 3) v = _mm512_mask_broadcast_i32x4(v, 0xf000, load16(p + 3 * stride));
    return v;
}

INLINE void load_q4_0(const char *p, int units, Span *s) {
    const __m512i v = bytes_of_blocks(p + 2, sizeof(BlockQ4_0), units);
    *s              = (Span){low_nibbles(v), high_nibbles(v), scales_of_blocks(p, sizeof(BlockQ4_0), units)};
}

INLINE void load_q4_1(const char *p, int units, Span *s) {
    const __m512i v     = bytes_of_blocks(p + 4, sizeof(BlockQ4_1), units);
    const __m128i words = words_of_blocks(p, sizeof(BlockQ4_1), units);
    *s                  = (Span){low_nibbles(v), high_nibbles(v), scales_and_minima(words)};
}

/* Adds to each element the fifth bit that stands in a word a block. */
INLINE void add_fifth_bits(__m128i words, Span *s) {
    const __m128i split =
        _mm_shuffle_epi8(words, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __mmask64 a = (__mmask64)_mm_cvtsi128_si64(split), b = (__mmask64)_mm_extract_epi64(split, 1);
    s->a = _mm512_mask_add_epi8(s->a, a, s->a, _mm512_set1_epi8(16));
    s->b = _mm512_mask_add_epi8(s->b, b, s->b, _mm512_set1_epi8(16));
}

INLINE void load_q5_0(const char *p, int units, Span *s) {
    const __m512i v = bytes_of_blocks(p + 6, sizeof(BlockQ5_0), units);
    *s              = (Span){low_nibbles(v), high_nibbles(v), scales_of_blocks(p, sizeof(BlockQ5_0), units)};
    add_fifth_bits(words_of_blocks(p + 2, sizeof(BlockQ5_0), units), s);
}

INLINE void load_q5_1(const char *p, int units, Span *s) {
    const __m512i v     = bytes_of_blocks(p + 8, sizeof(BlockQ5_1), units);
    const __m128i words = words_of_blocks(p, sizeof(BlockQ5_1), units);
    *s                  = (Span){low_nibbles(v), high_nibbles(v), scales_and_minima(words)};
    add_fifth_bits(words_of_blocks(p + 4, sizeof(BlockQ5_1), units), s);
}

INLINE void load_q8_0(const char *p, int units, Span *s) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    const __m512i a   = bytes_of_blocks(p + 2, sizeof(BlockQ8_0), units);
    const __m512i b   = bytes_of_blocks(p + 18, sizeof(BlockQ8_0), units);
    *s                = (Span){_mm512_xor_si512(a, top), _mm512_xor_si512(b, top),
                               scales_of_blocks(p, sizeof(BlockQ8_0), units)};
}

INLINE void load_mxfp4(const char *p, int units, Span *s) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i v = bytes_of_blocks(p + 1, sizeof(BlockMXFP4), units);
    const __m128i e = _mm_and_si128(words_of_blocks(p, sizeof(BlockMXFP4), units), _mm_set1_epi32(255));
    const __m128  d = _mm_maskz_mov_ps((__mmask8)((1 << units) - 1), mxfp4_scales(e));
    *s = (Span){_mm512_shuffle_epi8(values, low_nibbles(v)), _mm512_shuffle_epi8(values, high_nibbles(v)),
                _mm256_zextps128_ps256(d)};
}

/* ---- types in blocks of 256 ---- */

INLINE void scales_k(const char *p, Span *s) {
    const __m128i v     = load16(p);
    const __m512i which = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
    const __m512  d     = _mm512_permutexvar_ps(which, _mm512_castps128_ps512(scale_min_k(v)));
    const __m512  all   = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(scale_bytes_k(v))));
    s[0].scale_min      = _mm512_castps512_ps256(all);
    s[1].scale_min      = _mm512_extractf32x8_ps(all, 1);
}

/* Of 64 elements the first 32 are low nibbles, the others high. */
INLINE void nibbles_k(const uint8_t *qs, __m512i *a, __m512i *b) {
    const __m512i v = _mm512_loadu_si512(qs), low = low_nibbles(v), high = high_nibbles(v);
    *a = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), high);
    *b = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), high);
}

INLINE void load_q4_k(const char *p, int units, Span *s) {
    (void)units;
    const BlockQ4_K *block = (const BlockQ4_K *)(const void *)p;
    scales_k(p, s);
    for (int h = 0; h < 2; h++) nibbles_k(block->qs + 64 * h, &s[h].a, &s[h].b);
}

INLINE void load_q5_k(const char *p, int units, Span *s) {
    (void)units;
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m512i    a = _mm512_broadcast_i32x4(load16(block->qh)), sixteen = _mm512_set1_epi8(16);
    const __m512i    b = _mm512_broadcast_i32x4(load16(block->qh + 16));
    scales_k(p, s);
    for (int h = 0; h < 2; h++) {
        /* bit 4h + u of a byte is that of unit u: tested in place */
        const __m512i low =
            _mm512_setr_epi64(0x0101010101010101, 0x0101010101010101, 0x0202020202020202, 0x0202020202020202,
                              0x0404040404040404, 0x0404040404040404, 0x0808080808080808, 0x0808080808080808);
        const __m512i bit = h == 0 ? low : _mm512_slli_epi16(low, 4);
        nibbles_k(block->qs + 64 * h, &s[h].a, &s[h].b);
        s[h].a = _mm512_mask_add_epi8(s[h].a, _mm512_test_epi8_mask(a, bit), s[h].a, sixteen);
        s[h].b = _mm512_mask_add_epi8(s[h].b, _mm512_test_epi8_mask(b, bit), s[h].b, sixteen);
    }
}

/* n in each 16-bit word of the lower 32 bytes, m in those of the upper. */
INLINE __m512i words_twice(int n, int m) {
    return _mm512_inserti64x4(_mm512_set1_epi16((short)n), _mm256_set1_epi16((short)m), 1);
}

INLINE void load_q6_k(const char *p, int units, Span *s) {
    (void)units;
    const BlockQ6_K *block = (const BlockQ6_K *)(const void *)p;
    const __m512     d     = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(block->d)));
    const __m512 scale = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(block->scales))));
    __m128       quarters[4];
    quarters[0]               = _mm512_castps512_ps128(scale);
    quarters[1]               = _mm512_extractf32x4_ps(scale, 1);
    quarters[2]               = _mm512_extractf32x4_ps(scale, 2);
    quarters[3]               = _mm512_extractf32x4_ps(scale, 3);
    const __m512i fifth_sixth = _mm512_set1_epi8(0x30);
    for (int j = 0; j < 4; j++) {
        const int     h   = j / 2;
        const __m512i ql  = _mm512_loadu_si512(block->ql + 64 * h);
        const __m512i qh  = _mm512_broadcast_i64x4(load32(block->qh + 32 * h));
        const __m512i two = _mm512_and_si512(j % 2 ? _mm512_srlv_epi16(qh, words_twice(0, 2))
                                                   : _mm512_sllv_epi16(qh, words_twice(4, 2)),
                                             fifth_sixth);
        s[j].a         = _mm512_or_si512(j % 2 ? high_nibbles(ql) : low_nibbles(ql), two);
        s[j].b         = _mm512_setzero_si512();
        s[j].scale_min = _mm256_zextps128_ps256(quarters[j]);
    }
}

/* ---- columns ---- */

INLINE __m512i first_bytes(const void *p, int n) {
    return n >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(n > 0 ? ~(uint64_t)0 >> (64 - n) : 0, p);
}

/* The span from element i on, of `units` units of 32, or of four of 16. */
INLINE ColumnSpan column_span(const QuantForm *form, const DotColumn *x, int64_t i, int units) {
    ColumnSpan    s;
    const int8_t *q = x->q + i;
    if (form->unit == 16) {
        const __m128 pair = _mm_castsi128_ps(_mm_loadl_epi64((const void *)(x->scale + i / 32)));
        s.a               = _mm512_loadu_si512(q);
        s.b               = _mm512_setzero_si512();
        s.scale_sum       = _mm256_zextps128_ps256(_mm_unpacklo_ps(pair, pair));
    } else {
        const __m512i  first = first_bytes(q, 32 * units), second = first_bytes(q + 64, 32 * units - 64);
        const __mmask8 some = (__mmask8)((1 << units) - 1), twice = (__mmask8)((1 << 2 * units) - 1);
        const __m128   scale =
            units == 4 ? _mm_loadu_ps(x->scale + i / 32) : _mm_maskz_loadu_ps(some, x->scale + i / 32);
        s.a         = first_halves(first, second);
        s.b         = second_halves(first, second);
        s.scale_sum = _mm256_zextps128_ps256(scale);
        if (form->has_min) {
            const __m256 sums = units == 4 ? _mm256_loadu_ps(x->sum + i / RP_GROUP)
                                           : _mm256_maskz_loadu_ps(twice, x->sum + i / RP_GROUP);
            const __m128 low = _mm256_castps256_ps128(sums), high = _mm256_extractf128_ps(sums, 1);
            const __m128 sum = _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd));
            s.scale_sum      = _mm256_insertf128_ps(s.scale_sum, sum, 1);
        }
    }
    s.offset = _mm512_setzero_si512();
    if (form->offset > 0) {
        const __m512i every = _mm512_set1_epi8((char)form->offset);
        s.offset            = _mm512_dpbusd_epi32(s.offset, every, s.a);
        if (form->unit == 32) s.offset = _mm512_dpbusd_epi32(s.offset, every, s.b);
        s.offset = _mm512_sub_epi32(_mm512_setzero_si512(), s.offset);
    }
    return s;
}

INLINE __m512 lane_dots(const QuantForm *form, __m512i a, __m512i b, const ColumnSpan *x) {
    __m512i dot = _mm512_dpbusd_epi32(x->offset, a, x->a);
    if (form->unit == 32) dot = _mm512_dpbusd_epi32(dot, b, x->b);
    return _mm512_cvtepi32_ps(dot);
}

/* ---- results ---- */

INLINE __m512 halve_lanes(__m512 four) {
    const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
    return _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
}

/* The trees of four times 16 lanes, one at the start of each quarter. */
INLINE __m512 four_trees(const __m512 *v) {
    const __m512 e01 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 e23 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    return halve_lanes(
        _mm512_add_ps(_mm512_shuffle_f32x4(e01, e23, 0x88), _mm512_shuffle_f32x4(e01, e23, 0xdd)));
}

INLINE __m128 starts_of_quarters(__m512 v) {
    const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, v));
}

/* The results of dot.h for four rows; `low` has a row's four in each quarter. */
INLINE __m128 four_results(const __m512 *acc, __m512 low) {
    return starts_of_quarters(_mm512_add_ps(four_trees(acc), halve_lanes(low)));
}
#endif
#endif
