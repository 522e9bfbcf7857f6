/* gemv_load_avx2.h - loads of weights for AVX2: one row at a time, a pair of sub-blocks at a time.
 *
 * A k-step has two pairs: pair h is sub-blocks 2h and 2h + 1. Each weight type has a function that loads a pair's q
 * from the blocks of one row, and one that loads the pair's scales for four rows. GEMV multiplies them at once
 * (gemv_avx2.c); panels load 8 rows transposed instead (blocks_avx2.h). The scales of a pair come as
 *
 *     lane    0      1      2      3      4        5        6        7
 *     row     0      1      2      3      0        1        2        3
 *     sub     2h     2h     2h     2h     2h + 1   2h + 1   2h + 1   2h + 1 */
#ifndef FALLBACK_PRODUCTS_GEMV_LOAD_AVX2_H
#define FALLBACK_PRODUCTS_GEMV_LOAD_AVX2_H

#include "fallback/products/blocks_x86.h"

#ifdef RP_X86

#define INLINE INLINE_AVX2

enum {
    ROWS       = 4, /* rows of a row group */
    PAIRS      = 2,
    MAX_KSTEPS = 4,
    MAX_SUBS   = 16,
    MAX_BYTES  = 4 * sizeof(BlockQ8_0), /* of a k-step in blocks of 32, at most */
    SIGNED     = 128                    /* offset of Q8_0: its q stay signed */
};

/* How a load places a pair in the vectors q[0] and q[1]. Nibbles of a block of 32 come apart as elements 0-15 and
 * 16-31, hence HALVES.
 *
 *               q[0] lower    q[0] upper     q[1] lower    q[1] upper
 *     HALVES    A[0..15]      B[0..15]       A[16..31]     B[16..31]        A = sub-block 2h, B = sub-block 2h + 1
 *     WHOLE     A[0..15]      A[16..31]      B[0..15]      B[16..31]        Q8_0, Q4_K, Q5_K, expanded
 *     SHORT     A[0..15]      B[0..15]       0             0                sub-blocks of 16 */
typedef enum PairShape { HALVES, WHOLE, SHORT } PairShape;

/* Pair h of k-step j of the load at p. */
typedef void LoadPair(const char *p, int j, int h, __m256i q[2]);

/* Scales and minima of a pair of four rows, in the order above. */
typedef struct PairScales {
    __m256 scale, min;
} PairScales;

/* The headers of super-blocks of four rows, extracted once a load: d and -dmin of row l % 4 in lane l, and the
 * integer scales, as bytes:
 *
 *     Q4_K, Q5_K   factor[j]       byte 4r + u = scale of sub-block u of k-step j, row r; factor[2 + j] the minima
 *     Q6_K         factor[j]       byte 4u + r = the same, signed */
typedef struct Header {
    __m256  d, dmin;
    __m128i factor[MAX_KSTEPS];
    __m256  scale[MAX_SUBS / 2], min[MAX_SUBS / 2]; /* of expanded types: pair by pair, in the order of PairScales */
} Header;

/* Scales of pair h of k-step j, of four rows whose loads are at p. */
typedef void LoadScales(const char *const *p, const Header *header, int j, int h, PairScales *out);

typedef void LoadHeader(const char *const *p, Header *out);

typedef struct QuantLoader {
    LoadPair   *load;
    LoadScales *scales;
    int         n_ksteps;
    size_t      block; /* bytes */
    QuantForm   form;
    LoadHeader *header; /* of expanded types, else NULL */
} QuantLoader;

#define QUANT_LOADER(ID, name)                                                                                         \
    { load_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_BYTES, RP_QUANT_FORM(ID), NULL }
#define EXPANDED_LOADER(ID, name)                                                                                      \
    {                                                                                                                  \
        load_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_BYTES, RP_QUANT_FORM(ID),                            \
            RP_##ID##_ELEMS == 32 ? NULL : header_##name                                                               \
    }

#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top) < SIGNED, #name ": only with offset 128 quants have 8 bits");
RP_QUANTS(X)
#undef X

INLINE bool blocks_of_32(const QuantLoader *t) { return t->n_ksteps == 1; }

/* Bytes of one row's load. */
INLINE size_t load_bytes(const QuantLoader *t) { return blocks_of_32(t) ? RP_KSTEP_SUBS * t->block : t->block; }

INLINE PairShape pair_shape(const QuantLoader *t) {
    if (t->form.sub_elems == 16) return SHORT;
    return blocks_of_32(t) && t->form.offset != SIGNED ? HALVES : WHOLE;
}

INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* 16 bytes at a in the lower half, 16 bytes at b in the upper. */
INLINE __m256i two_halves(const void *a, const void *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
}

INLINE __m256i twice(__m128i v) { return _mm256_inserti128_si256(_mm256_castsi128_si256(v), v, 1); }

/* ---- types in blocks of 32: a k-step is four blocks ---- */

/* The nibbles of pair h, as HALVES. They start `skip` bytes into each block. */
INLINE void nibbles_of_blocks(const char *p, size_t block, size_t skip, int h, __m256i q[2]) {
    p += skip + (size_t)(2 * h) * block;
    const __m256i v = two_halves(p, p + block);
    q[0]            = low_nibbles(v);
    q[1]            = high_nibbles(v);
}

/* The 16-bit words at the start of pair h's blocks, of four rows, in the order of PairScales. */
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

/* The 32-bit words at byte `at` of four rows. */
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

/* Four words (scale, minimum) to four scales, then four minima. */
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

/* 16 in each byte whose fifth bit is set. The 16 bits of the lower half's elements are bytes a and a + 1 of v's
 * lower half, those of the upper half's elements bytes b and b + 1 of its upper half. The shuffle copies the right
 * byte to each element, and `bit` tests bit i % 8 of it. */
INLINE __m256i fifth_bits(__m256i v, int a, int b) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i at  = _mm256_setr_epi64x(a * 0x0101010101010101, (a + 1) * 0x0101010101010101, b * 0x0101010101010101,
                                           (b + 1) * 0x0101010101010101);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(v, at), bit), bit);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/* Adds the fifth bits of pair h. 32 bytes from the first block's qh on also contain the next block's qh: it is
 * `block` bytes later, that is byte block - 16 of the upper half. */
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

/* The first byte of pair h's blocks, of four rows, in the order of PairScales. */
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

/* As mxfp4_scales, for eight blocks. */
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

/* Transposes a 4 x 4 matrix of words. */
INLINE void transpose4(__m128i v[4]) {
    const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]);
    const __m128i c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm_unpacklo_epi64(a, b);
    v[1] = _mm_unpackhi_epi64(a, b);
    v[2] = _mm_unpacklo_epi64(c, d);
    v[3] = _mm_unpackhi_epi64(c, d);
}

/* The first 16 bytes of four super-blocks, transposed: w[0] is d and dmin of each row, w[1] to w[3] scales[12]
 * (BlockQ4_K). The 6-bit fields become factor[0..1], the scales of both k-steps, and factor[2..3], the minima. */
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

/* The factors of pair h as floats, in the order of PairScales: byte 4r + 2h of `bytes`, then byte 4r + 2h + 1. A
 * shuffle index of 0xff gives a zero byte, which extends each byte to 32 bits. */
INLINE __m256 factors_k(__m128i bytes, int h) {
    const __m256i first = _mm256_setr_epi32((int)0xffffff00, (int)0xffffff04, (int)0xffffff08, (int)0xffffff0c,
                                            (int)0xffffff01, (int)0xffffff05, (int)0xffffff09, (int)0xffffff0d);
    const __m256i at    = _mm256_or_si256(first, _mm256_set1_epi32(2 * h));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(twice(bytes), at));
}

INLINE void scales_k(const Header *header, int j, int h, PairScales *out) {
    out->scale = _mm256_mul_ps(header->d, factors_k(header->factor[j], h));
    out->min   = _mm256_mul_ps(header->dmin, factors_k(header->factor[2 + j], h));
}

/* 32 bytes of qs are a pair, as WHOLE: low nibbles one sub-block, high nibbles the next. */
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

/* 16 in each byte whose bit m is set. m is the sub-block's index in the block. */
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

/* Bits 2m and 2m + 1 of each byte, as bits 4 and 5: line m of the table at BlockQ6_K. */
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

/* The 16 signed scales of four rows, interleaved byte by byte so that the rows of a sub-block are neighbours. */
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

/* Blocks of 32 have no header: their scales stand in each block. */
INLINE void load_header(const QuantLoader *t, const char *const *p, Header *out) {
    if (t->header != NULL)
        t->header(p, out);
    else if (t->form.sub_elems == 16)
        header_q6_k(p, out);
    else if (!blocks_of_32(t))
        header_k(p, out);
}

/* ---- the last load of a row ---- */

/* Rows of blocks of 32 may end with 1 or 3 blocks, of which the last has no partner in its pair. A load of that pair
 * would read past the row, so the blocks are copied to `to`, MAX_BYTES long; bytes after them are not changed. */
INLINE void copy_last_blocks(const QuantLoader *t, const char *p, int n_subs, char *to) {
    if (n_subs == 1) /* constant sizes compile to moves, not to a call */
        memcpy(to, p, t->block);
    else
        memcpy(to, p, 3 * t->block);
}

/* ---- reductions, in the order of all variants (I8) ---- */

/* Lane i = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]). */
INLINE __m128 reduce_4x4(const __m128 *v) {
    const __m128 t01 = _mm_add_ps(_mm_movelh_ps(v[0], v[1]), _mm_movehl_ps(v[1], v[0]));
    const __m128 t23 = _mm_add_ps(_mm_movelh_ps(v[2], v[3]), _mm_movehl_ps(v[3], v[2]));
    return _mm_add_ps(_mm_shuffle_ps(t01, t23, 0x88), _mm_shuffle_ps(t01, t23, 0xdd));
}

/* 16 lanes to 4: lane l is added to lane l + 8, then the sum to that of lane l + 4. */
INLINE __m128 reduce_to_4(__m256 low, __m256 high) {
    const __m256 eight = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
#endif
#endif
