/* spans_avx2.h - spans of weights in registers, a pair of units at a time.
 *
 * Each type has one function that takes a pair from a row's blocks, and one that takes the scales of four rows;
 * decode multiplies what they give at once (gemv_avx2.c), a prefill stores it in panels (dot_avx2.c). Scales, minima
 * and sums of a pair come as the four rows of its first unit and the four rows of its second. */
#ifndef FALLBACK_GEMV_LOAD_AVX2_H
#define FALLBACK_GEMV_LOAD_AVX2_H

#include "fallback/blocks_x86.h"

#ifdef RP_X86

#define INLINE INLINE_AVX2

enum {
    ROWS      = 4, /* at a time */
    PAIRS     = 2,
    MAX_SPANS = 4,
    MAX_BYTES = 4 * sizeof(BlockQ8_0), /* of a span of blocks of 32 */
    SIGNED    = 128                    /* the offset that is kept as a sign */
};

/* How a pair stands in the vectors that a load gives. */
typedef enum PairShape {
    HALVES, /* the first 16 elements of both units, then the second: blocks of 32 with nibbles */
    WHOLE,  /* one unit, then the other */
    SHORT   /* one vector: both units of 16 */
} PairShape;

/* Pair h of span j of the blocks at p. */
typedef void LoadPair(const char *p, int j, int h, __m256i q[2]);

/* Of four rows in a pair. */
typedef struct PairScales {
    __m256 scale, min;
} PairScales;

/* Of blocks of 256 of four rows: d and -dmin, for both units of a pair, and their factors, which are bytes: of Q6_K a
 * word a unit, of which each byte is a row's, else a word a row, of which each byte is a unit's. */
typedef struct Header {
    __m256  d, dmin;
    __m128i factor[MAX_SPANS];
} Header;

/* Of pair h of span j of four rows whose blocks are at p. */
typedef void LoadScales(const char *const *p, const Header *header, int j, int h, PairScales *out);

typedef struct SpanType {
    LoadPair   *load;
    LoadScales *scales;
    int         n_spans;
    size_t      block;
    QuantForm   form;
} SpanType;

#define SPAN_TYPE(name, Block, spans, ...)                                                                   \
    {                                                                                                        \
        load_##name, scales_##name, spans, sizeof(Block), { __VA_ARGS__ }                                    \
    }

INLINE bool blocks_of_32(const SpanType *t) { return t->n_spans == 1; }

/* Of one load. */
INLINE size_t span_bytes(const SpanType *t) { return blocks_of_32(t) ? RP_SPAN_UNITS * t->block : t->block; }

INLINE PairShape pair_shape(const SpanType *t) {
    if (t->form.unit == 16) return SHORT;
    return blocks_of_32(t) && t->form.offset != SIGNED ? HALVES : WHOLE;
}

INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

INLINE __m256i two_halves(const void *a, const void *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
}

INLINE __m256i twice(__m128i v) { return _mm256_inserti128_si256(_mm256_castsi128_si256(v), v, 1); }

/* ---- types in blocks of 32: a span is four of them ---- */

/* `skip` bytes of a block come before the 16 of nibbles. */
INLINE void nibbles_of_blocks(const char *p, size_t block, size_t skip, int h, __m256i q[2]) {
    p += skip + (size_t)(2 * h) * block;
    const __m256i v = two_halves(p, p + block);
    q[0]            = low_nibbles(v);
    q[1]            = high_nibbles(v);
}

/* The first words of 16 bits of a pair's blocks. */
INLINE __m128i words16(const char *const *p, size_t block, int h) {
    const size_t a = (size_t)(2 * h) * block, b = a + block;
    __m128i      v = _mm_cvtsi32_si128(word32(p[0] + a)); /* the upper half is overwritten */
    v              = _mm_insert_epi16(v, word16(p[1] + a), 1);
    v              = _mm_insert_epi16(v, word16(p[2] + a), 2);
    v              = _mm_insert_epi16(v, word16(p[3] + a), 3);
    v              = _mm_insert_epi16(v, word16(p[0] + b), 4);
    v              = _mm_insert_epi16(v, word16(p[1] + b), 5);
    v              = _mm_insert_epi16(v, word16(p[2] + b), 6);
    return _mm_insert_epi16(v, word16(p[3] + b), 7);
}

/* The words of 32 bits at the same place of four rows. */
INLINE __m128i words32(const char *const *p, size_t at) {
    __m128i v = _mm_cvtsi32_si128(word32(p[0] + at));
    v         = _mm_insert_epi32(v, word32(p[1] + at), 1);
    v         = _mm_insert_epi32(v, word32(p[2] + at), 2);
    return _mm_insert_epi32(v, word32(p[3] + at), 3);
}

INLINE void only_scales(const char *const *p, size_t block, int h, PairScales *out) {
    out->scale = _mm256_cvtph_ps(words16(p, block, h));
    out->min   = _mm256_setzero_ps();
}

/* Words of a scale and a minimum to four of the one and four of the other. */
INLINE __m128i apart(__m128i words) {
    return _mm_shuffle_epi8(words, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
}

INLINE void scales_with_minima(const char *const *p, size_t block, int h, PairScales *out) {
    const size_t  at = (size_t)(2 * h) * block;
    const __m128i a = apart(words32(p, at)), b = apart(words32(p, at + block));
    out->scale = _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b));
    out->min   = _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b));
}

INLINE void load_q4_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ4_0), 2, h, q);
}

INLINE void scales_q4_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ4_0), h, out);
}

INLINE void load_q4_1(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ4_1), 4, h, q);
}

INLINE void scales_q4_1(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    scales_with_minima(p, sizeof(BlockQ4_1), h, out);
}

/* 16 where the bit of an element is set. Of the word of a unit's bits v has two bytes at `a` of the lower and at `b`
 * of the upper half. */
INLINE __m256i fifth_bits(__m256i v, int a, int b) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i at  = _mm256_setr_epi64x(a * 0x0101010101010101, (a + 1) * 0x0101010101010101,
                                           b * 0x0101010101010101, (b + 1) * 0x0101010101010101);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(v, at), bit), bit);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/* 32 bytes from a block's word of fifth bits on have the next block's word in their upper half. */
INLINE void add_fifth_bits(const char *p, size_t block, size_t skip, int h, __m256i q[2]) {
    const __m256i v    = load32(p + skip + (size_t)(2 * h) * block);
    const int     next = (int)block - 16;
    q[0]               = _mm256_or_si256(q[0], fifth_bits(v, 0, next));
    q[1]               = _mm256_or_si256(q[1], fifth_bits(v, 2, next + 2));
}

INLINE void load_q5_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ5_0), 6, h, q);
    add_fifth_bits(p, sizeof(BlockQ5_0), 2, h, q);
}

INLINE void scales_q5_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ5_0), h, out);
}

INLINE void load_q5_1(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ5_1), 8, h, q);
    add_fifth_bits(p, sizeof(BlockQ5_1), 4, h, q);
}

INLINE void scales_q5_1(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    scales_with_minima(p, sizeof(BlockQ5_1), h, out);
}

INLINE void load_q8_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    p += 2 + (size_t)(2 * h) * sizeof(BlockQ8_0);
    q[0] = load32(p);
    q[1] = load32(p + sizeof(BlockQ8_0));
}

INLINE void scales_q8_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ8_0), h, out);
}

INLINE void load_mxfp4(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    nibbles_of_blocks(p, sizeof(BlockMXFP4), 1, h, q);
    q[0] = _mm256_shuffle_epi8(values, q[0]);
    q[1] = _mm256_shuffle_epi8(values, q[1]);
}

/* The first bytes of a pair's blocks. */
INLINE __m128i bytes8(const char *const *p, size_t block, int h) {
    const size_t a = (size_t)(2 * h) * block, b = a + block;
    __m128i      v = _mm_cvtsi32_si128(word32(p[0] + a));
    v              = _mm_insert_epi8(v, p[1][a], 1);
    v              = _mm_insert_epi8(v, p[2][a], 2);
    v              = _mm_insert_epi8(v, p[3][a], 3);
    v              = _mm_insert_epi8(v, p[0][b], 4);
    v              = _mm_insert_epi8(v, p[1][b], 5);
    v              = _mm_insert_epi8(v, p[2][b], 6);
    return _mm_insert_epi8(v, p[3][b], 7);
}

/* 2^(e - 128): the larger of two words, of which the first is that of e >= 2 (see mxfp4_scales). */
INLINE void scales_mxfp4(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    const __m256i one    = _mm256_set1_epi32(1);
    const __m256i e      = _mm256_cvtepu8_epi32(bytes8(p, sizeof(BlockMXFP4), h));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small  = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    (void)header, (void)j;
    out->scale = _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
    out->min   = _mm256_setzero_ps();
}

/* ---- types in blocks of 256 ---- */

/* Lanes of four rows to rows of four lanes. */
INLINE void transpose4(__m128i v[4]) {
    const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]);
    const __m128i c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm_unpacklo_epi64(a, b);
    v[1] = _mm_unpackhi_epi64(a, b);
    v[2] = _mm_unpacklo_epi64(c, d);
    v[3] = _mm_unpackhi_epi64(c, d);
}

/* d and dmin, and three words of fields of 6 bits, which unpack.c describes: scales of both spans, then minima. */
INLINE void header_k(const char *const *p, Header *out) {
    const __m128i six = _mm_set1_epi8(0x3f), four = _mm_set1_epi8(0x0f), two = _mm_set1_epi8(0x30);
    __m128i       w[ROWS];
    for (int r = 0; r < ROWS; r++) w[r] = load16(p[r]);
    transpose4(w);
    const __m256  both  = _mm256_cvtph_ps(apart(w[0]));
    const __m128i upper = _mm_and_si128(_mm_srli_epi16(w[1], 2), two);
    const __m128i under = _mm_and_si128(_mm_srli_epi16(w[2], 2), two);
    out->d              = _mm256_permute2f128_ps(both, both, 0x00);
    out->dmin           = _mm256_xor_ps(_mm256_permute2f128_ps(both, both, 0x11), _mm256_set1_ps(-0.0f));
    out->factor[0]      = _mm_and_si128(w[1], six);
    out->factor[1]      = _mm_or_si128(_mm_and_si128(w[3], four), upper);
    out->factor[2]      = _mm_and_si128(w[2], six);
    out->factor[3]      = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(w[3], 4), four), under);
}

/* Factors of a pair, as floats; an index of -1 gives 0. */
INLINE __m256 factors_k(__m128i bytes, int h) {
    const __m256i first =
        _mm256_setr_epi32((int)0xffffff00, (int)0xffffff04, (int)0xffffff08, (int)0xffffff0c, (int)0xffffff01,
                          (int)0xffffff05, (int)0xffffff09, (int)0xffffff0d);
    const __m256i at = _mm256_or_si256(first, _mm256_set1_epi32(2 * h));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(twice(bytes), at));
}

INLINE void scales_k(const Header *header, int j, int h, PairScales *out) {
    out->scale = _mm256_mul_ps(header->d, factors_k(header->factor[j], h));
    out->min   = _mm256_mul_ps(header->dmin, factors_k(header->factor[2 + j], h));
}

/* Of 64 elements the first 32 are low nibbles, the others high. */
INLINE void load_q4_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ4_K *block = (const BlockQ4_K *)(const void *)p;
    const __m256i    v     = load32(block->qs + 64 * j + 32 * h);
    q[0]                   = low_nibbles(v);
    q[1]                   = high_nibbles(v);
}

INLINE void scales_q4_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    scales_k(header, j, h, out);
}

/* 16 where bit m of a byte is set. */
INLINE __m256i fifth_bits_k(__m256i v, int m) {
    const __m256i moved = m < 4 ? _mm256_slli_epi16(v, 4 - m) : _mm256_srli_epi16(v, m - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

INLINE void load_q5_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m256i    v = load32(block->qs + 64 * j + 32 * h), qh = load32(block->qh);
    q[0] = _mm256_or_si256(low_nibbles(v), fifth_bits_k(qh, 4 * j + 2 * h));
    q[1] = _mm256_or_si256(high_nibbles(v), fifth_bits_k(qh, 4 * j + 2 * h + 1));
}

INLINE void scales_q5_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    scales_k(header, j, h, out);
}

/* Bits 2m and 2m + 1 of each byte as the fifth and sixth. */
INLINE __m256i fifth_sixth_bits(__m256i v, int m) {
    const __m256i moved = m < 2 ? _mm256_slli_epi16(v, 4 - 2 * m) : _mm256_srli_epi16(v, 2 * m - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(0x30));
}

INLINE void load_q6_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ6_K *block     = (const BlockQ6_K *)(const void *)p;
    const __m256i    ql        = load32(block->ql + 64 * (j / 2) + 32 * h);
    const __m256i    qh        = load32(block->qh + 32 * (j / 2));
    const __m256i    four_bits = j % 2 == 0 ? low_nibbles(ql) : high_nibbles(ql);
    q[0]                       = _mm256_or_si256(four_bits, fifth_sixth_bits(qh, j % 2 * 2 + h));
    q[1]                       = _mm256_setzero_si256();
}

INLINE void header_q6_k(const char *const *p, Header *out) {
    const size_t  at = offsetof(BlockQ6_K, scales), of_d = offsetof(BlockQ6_K, d);
    const __m128i a = load16(p[0] + at), b = load16(p[1] + at), c = load16(p[2] + at), e = load16(p[3] + at);
    const __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
    const __m128i ce_low = _mm_unpacklo_epi8(c, e), ce_high = _mm_unpackhi_epi8(c, e);
    __m128i       d = _mm_cvtsi32_si128(word16(p[0] + of_d));
    d               = _mm_insert_epi16(d, word16(p[1] + of_d), 1);
    d               = _mm_insert_epi16(d, word16(p[2] + of_d), 2);
    d               = _mm_insert_epi16(d, word16(p[3] + of_d), 3);
    out->d          = _mm256_cvtph_ps(_mm_unpacklo_epi64(d, d));
    out->dmin       = _mm256_setzero_ps();
    out->factor[0]  = _mm_unpacklo_epi16(ab_low, ce_low);
    out->factor[1]  = _mm_unpackhi_epi16(ab_low, ce_low);
    out->factor[2]  = _mm_unpacklo_epi16(ab_high, ce_high);
    out->factor[3]  = _mm_unpackhi_epi16(ab_high, ce_high);
}

INLINE void scales_q6_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    const __m128i v = header->factor[j], eight = h == 0 ? v : _mm_unpackhi_epi64(v, v);
    (void)p;
    out->scale = _mm256_mul_ps(header->d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
    out->min   = _mm256_setzero_ps();
}

/* Of types in blocks of 256. */
INLINE void load_header(const SpanType *t, const char *const *p, Header *out) {
    if (t->form.unit == 16)
        header_q6_k(p, out);
    else if (!blocks_of_32(t))
        header_k(p, out);
}

/* ---- rows ---- */

/* The blocks of 32 that are left of a row at its end, where the last has no other to make a pair: 1 or 3. What comes
 * after them in `to` stays. */
INLINE void copy_last_blocks(const SpanType *t, const char *p, int units, char *to) {
    if (units == 1) /* constant sizes, so that no function is called */
        memcpy(to, p, t->block);
    else
        memcpy(to, p, 3 * t->block);
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
