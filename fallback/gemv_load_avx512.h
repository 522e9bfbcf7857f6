/* spans_avx512.h - spans of weights and of columns in registers: a quarter of a register is a unit, whose elements are
 * in four lanes.
 *
 * Each type has one function that takes a span, or a block of 256, from the bytes of the file, for products with one column
 * (gemv_avx512.c). For more columns blocks_avx512.h takes 16 rows at a time. */
#ifndef FALLBACK_GEMV_LOAD_AVX512_H
#define FALLBACK_GEMV_LOAD_AVX512_H

#include "fallback/blocks_x86.h"

#include <stddef.h>

#ifdef RP_X86
#define INLINE RP_TARGET_AVX512 RP_BODY

/* The halves of a span's quants, or its units of 16 in a. */
typedef struct Span {
    __m512i a, b;
} Span;

/* Of a span of four rows: unit by unit the rows' scales, and their minima, if there are any. */
typedef struct SpanScales {
    __m512 scale, min;
} SpanScales;

/* A span of a column, its scales and sums in all lanes of their units; `offset` is what the weights' offset adds to
 * each lane. */
typedef struct ColumnSpan {
    __m512i a, b, offset;
    __m512  scale, sum;
} ColumnSpan;

enum { MAX_SPANS = 4 };

/* n_spans spans; of types in blocks of 32 one of `units` blocks, 1 to 4, and zeros after them. */
typedef void LoadSpans(const char *block, int units, Span *out);

/* The same for the scales of four rows, `at` bytes from where each row starts. */
typedef void LoadScales(const char *const *row, size_t at, int units, SpanScales *out);

typedef struct SpanType {
    LoadSpans  *load;
    LoadScales *scales;
    int         n_spans;
    size_t      bytes;
    QuantForm   form;
} SpanType;

#define SPAN_TYPE(name, Block, spans, ...)                                                                   \
    {                                                                                                        \
        load_##name, scales_##name, spans, sizeof(Block) * (spans == 1 ? 4 : 1), { __VA_ARGS__ }             \
    }

INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

/* Four values, one a unit, each to the four lanes of its unit. */
INLINE __m512 by_unit(__m128 four) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(four));
}

/* First and second 16 bytes of four times 32. */
INLINE __m512i first_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), y);
}
INLINE __m512i second_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), y);
}

/* 16 bytes each, of the first n; zeros after them. */
INLINE __m512i quarters(const char *a, const char *b, const char *c, const char *d, int n) {
    __m512i v = _mm512_zextsi128_si512(load16(a));
    if (n > 1) v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load16(b));
    if (n > 2) v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load16(c));
    if (n > 3) v = _mm512_mask_broadcast_i32x4(v, 0xf000, load16(d));
    return v;
}

/* ---- types in blocks of 32: a span is four of them ---- */

/* 16 bytes of each block. */
INLINE __m512i bytes_of_blocks(const char *p, size_t stride, int units) {
    return quarters(p, p + stride, p + 2 * stride, p + 3 * stride, units);
}

/* A half float, or two, at the start of each block. Of a pair of blocks a row's are at known places of 64 bytes, and row r
 * is loaded `words * r` words late, so that all rows' go into one register, and one permutation orders those of two. */
INLINE void half_scales(const char *const *row, size_t at, size_t block, int words, int units,
                        SpanScales *out) {
    const int each = words == 1 ? 1 : 3, next = (int)block / 2;
    __m512i   pair[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const int some = (units > 2 * h ? each : 0) | (units > 2 * h + 1 ? each << next : 0);
        pair[h]        = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int r = 0; r < 4 && some != 0; r++)
            pair[h] = _mm512_mask_loadu_epi16(pair[h], (__mmask32)some << words * r,
                                              row[r] + at + 2 * (size_t)h * block - 2 * (size_t)(words * r));
    }
#define AT(u, r, k) (short)((u) / 2 * 32 + (u) % 2 * next + words * (r) + (k))
#define ROWS(u, k)  AT(u, 3, k), AT(u, 2, k), AT(u, 1, k), AT(u, 0, k)
#define UNITS(k)    ROWS(3, k), ROWS(2, k), ROWS(1, k), ROWS(0, k)
    const __m512i all =
        _mm512_permutex2var_epi16(pair[0], _mm512_set_epi16(UNITS(words - 1), UNITS(0)), pair[1]);
#undef UNITS
#undef ROWS
#undef AT
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(all));
    if (words > 1) out->min = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1));
}

#define HALF_SCALES(name, Block, words)                                                                      \
    INLINE void scales_##name(const char *const *row, size_t at, int units, SpanScales *out) {               \
        half_scales(row, at, sizeof(Block), words, units, out);                                              \
    }
HALF_SCALES(q4_0, BlockQ4_0, 1)
HALF_SCALES(q4_1, BlockQ4_1, 2)
HALF_SCALES(q5_0, BlockQ5_0, 1)
HALF_SCALES(q5_1, BlockQ5_1, 2)
HALF_SCALES(q8_0, BlockQ8_0, 1)
#undef HALF_SCALES

INLINE void load_q4_0(const char *p, int units, Span *s) {
    const __m512i v = bytes_of_blocks(p + 2, sizeof(BlockQ4_0), units);
    *s              = (Span){low_nibbles(v), high_nibbles(v)};
}

INLINE void load_q4_1(const char *p, int units, Span *s) {
    const __m512i v = bytes_of_blocks(p + 4, sizeof(BlockQ4_1), units);
    *s              = (Span){low_nibbles(v), high_nibbles(v)};
}

/* The first 4 bytes of each block. */
INLINE __m128i words_of_blocks(const char *p, size_t stride, int units) {
    __m128i v = _mm_cvtsi32_si128(word32(p));
    if (units > 1) v = _mm_insert_epi32(v, word32(p + stride), 1);
    if (units > 2) v = _mm_insert_epi32(v, word32(p + 2 * stride), 2);
    if (units > 3) v = _mm_insert_epi32(v, word32(p + 3 * stride), 3);
    return v;
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
    *s              = (Span){low_nibbles(v), high_nibbles(v)};
    add_fifth_bits(words_of_blocks(p + 2, sizeof(BlockQ5_0), units), s);
}

INLINE void load_q5_1(const char *p, int units, Span *s) {
    const __m512i v = bytes_of_blocks(p + 8, sizeof(BlockQ5_1), units);
    *s              = (Span){low_nibbles(v), high_nibbles(v)};
    add_fifth_bits(words_of_blocks(p + 4, sizeof(BlockQ5_1), units), s);
}

INLINE void load_q8_0(const char *p, int units, Span *s) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    const __m512i a   = bytes_of_blocks(p + 2, sizeof(BlockQ8_0), units);
    const __m512i b   = bytes_of_blocks(p + 18, sizeof(BlockQ8_0), units);
    *s                = (Span){_mm512_xor_si512(a, top), _mm512_xor_si512(b, top)};
}

INLINE void load_mxfp4(const char *p, int units, Span *s) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i v = bytes_of_blocks(p + 1, sizeof(BlockMXFP4), units);
    *s = (Span){_mm512_shuffle_epi8(values, low_nibbles(v)), _mm512_shuffle_epi8(values, high_nibbles(v))};
}

INLINE __m128 row_scales_mxfp4(const char *p, int units) {
    const __m128i words = words_of_blocks(p, sizeof(BlockMXFP4), units);
    const __m128  d     = mxfp4_scales(_mm_and_si128(words, _mm_set1_epi32(255)));
    return _mm_maskz_mov_ps((__mmask8)((1 << units) - 1), d);
}

INLINE void scales_mxfp4(const char *const *row, size_t at, int units, SpanScales *out) {
    __m512 v = _mm512_castps128_ps512(row_scales_mxfp4(row[0] + at, units));
    v        = _mm512_insertf32x4(v, row_scales_mxfp4(row[1] + at, units), 1);
    v        = _mm512_insertf32x4(v, row_scales_mxfp4(row[2] + at, units), 2);
    v        = _mm512_insertf32x4(v, row_scales_mxfp4(row[3] + at, units), 3);
    out->scale =
        _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

/* ---- types in blocks of 256 ---- */

/* 16 bytes of four rows, a quarter each. */
INLINE __m512i bytes_of_rows(const char *const *row, size_t at) {
    return quarters(row[0] + at, row[1] + at, row[2] + at, row[3] + at, 4);
}

/* Word w of each row's quarter, in the lanes of every unit. */
INLINE __m512i word_by_unit_and_row(__m512i v, int w) {
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(first, _mm512_set1_epi32(w)), v);
}

/* 8 bits at bit 8u of unit u's lanes, to the lowest place or to the highest. */
INLINE __m512i unit_bytes_down(__m512i v) {
    const __m512i by = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24);
    return _mm512_and_si512(_mm512_srlv_epi32(v, by), _mm512_set1_epi32(255));
}
INLINE __m512i unit_bytes_up(__m512i v) {
    return _mm512_sllv_epi32(v, _mm512_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16, 8, 8, 8, 8, 0, 0, 0, 0));
}

/* The first 16 bytes of a block: d, dmin and three words of 6-bit fields, which unpack.c describes. They become four
 * words of bytes: the first four scales and minima, then the other four. */
INLINE void scales_q4_k(const char *const *row, size_t at, int units, SpanScales *out) {
    const __m512i head  = bytes_of_rows(row, at);
    const __m512i lower = _mm512_and_si512(
        _mm512_srlv_epi32(_mm512_shuffle_epi32(head, 0xf9),
                          _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4))),
        _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x3f3f3f3f, 0x0f0f0f0f, 0x0f0f0f0f)));
    const __m512i upper =
        _mm512_and_si512(_mm512_srli_epi32(_mm512_shuffle_epi32(head, 0x90), 2),
                         _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0x30303030, 0x30303030)));
    const __m512i bytes = _mm512_or_si512(lower, upper), d = word_by_unit_and_row(head, 0);
    const __m512  scale = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(d));
    const __m512  minus = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(d, 16)));
    (void)units;
    for (int h = 0; h < 2; h++) {
        const __m512i of_scale = unit_bytes_down(word_by_unit_and_row(bytes, 2 * h));
        const __m512i of_min   = unit_bytes_down(word_by_unit_and_row(bytes, 2 * h + 1));
        out[h].scale           = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(of_scale));
        out[h].min = _mm512_mul_ps(_mm512_mul_ps(minus, _mm512_set1_ps(-1.0f)), _mm512_cvtepi32_ps(of_min));
    }
}

INLINE void scales_q5_k(const char *const *row, size_t at, int units, SpanScales *out) {
    scales_q4_k(row, at, units, out);
}

INLINE void scales_q6_k(const char *const *row, size_t at, int units, SpanScales *out) {
    const __m512i bytes = bytes_of_rows(row, at + offsetof(BlockQ6_K, scales));
    __m128i       d     = _mm_setzero_si128();
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
        d = _mm_mask_loadu_epi16(d, (__mmask8)(1 << r), row[r] + at + offsetof(BlockQ6_K, d) - 2 * (size_t)r);
    const __m512 scale = _mm512_broadcast_f32x4(_mm_cvtph_ps(d));
    (void)units;
    for (int h = 0; h < 4; h++) {
        const __m512i of_unit = _mm512_srai_epi32(unit_bytes_up(word_by_unit_and_row(bytes, h)), 24);
        out[h].scale          = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(of_unit));
    }
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
    for (int h = 0; h < 2; h++) nibbles_k(block->qs + 64 * h, &s[h].a, &s[h].b);
}

INLINE void load_q5_k(const char *p, int units, Span *s) {
    (void)units;
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m512i    a = _mm512_broadcast_i32x4(load16(block->qh)), sixteen = _mm512_set1_epi8(16);
    const __m512i    b = _mm512_broadcast_i32x4(load16(block->qh + 16));
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
    const BlockQ6_K *block       = (const BlockQ6_K *)(const void *)p;
    const __m512i    fifth_sixth = _mm512_set1_epi8(0x30);
    for (int j = 0; j < 4; j++) {
        const int     h   = j / 2;
        const __m512i ql  = _mm512_loadu_si512(block->ql + 64 * h);
        const __m512i qh  = _mm512_broadcast_i64x4(load32(block->qh + 32 * h));
        const __m512i two = _mm512_and_si512(j % 2 ? _mm512_srlv_epi16(qh, words_twice(0, 2))
                                                   : _mm512_sllv_epi16(qh, words_twice(4, 2)),
                                             fifth_sixth);
        s[j].a = _mm512_or_si512(j % 2 ? high_nibbles(ql) : low_nibbles(ql), two);
        s[j].b = _mm512_setzero_si512();
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
        s.scale           = by_unit(_mm_unpacklo_ps(pair, pair));
    } else {
        const __m512i  first = first_bytes(q, 32 * units), second = first_bytes(q + 64, 32 * units - 64);
        const __mmask8 some = (__mmask8)((1 << units) - 1), twice = (__mmask8)((1 << 2 * units) - 1);
        const __m128   scale =
            units == 4 ? _mm_loadu_ps(x->scale + i / 32) : _mm_maskz_loadu_ps(some, x->scale + i / 32);
        s.a     = first_halves(first, second);
        s.b     = second_halves(first, second);
        s.scale = by_unit(scale);
        if (form->has_min) {
            const __m256 sums = units == 4 ? _mm256_loadu_ps(x->sum + i / RP_GROUP)
                                           : _mm256_maskz_loadu_ps(twice, x->sum + i / RP_GROUP);
            const __m128 low = _mm256_castps256_ps128(sums), high = _mm256_extractf128_ps(sums, 1);
            const __m128 sum = _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd));
            s.sum            = by_unit(sum);
        }
    }
    s.offset = _mm512_setzero_si512();
    if (!form->has_min) s.sum = _mm512_setzero_ps();
    if (form->offset > 0) {
        const __m512i every = _mm512_set1_epi8((char)form->offset);
        s.offset            = _mm512_dpbusd_epi32(s.offset, every, s.a);
        if (form->unit == 32) s.offset = _mm512_dpbusd_epi32(s.offset, every, s.b);
        s.offset = _mm512_sub_epi32(_mm512_setzero_si512(), s.offset);
    }
    return s;
}

INLINE __m512i lane_dots(const QuantForm *form, __m512i a, __m512i b, const ColumnSpan *x) {
    __m512i dot = _mm512_dpbusd_epi32(x->offset, a, x->a);
    if (form->unit == 32) dot = _mm512_dpbusd_epi32(dot, b, x->b);
    return dot;
}
#endif
#endif
