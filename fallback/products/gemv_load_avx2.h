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
    MAX_BYTES  = 136, /* of a k-step in blocks of 32, at most */
    SIGNED     = 128  /* offset of types whose q stay signed */
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
    LoadHeader *header; /* NULL in blocks of 32, whose scales stand in each block */
} QuantLoader;

#define QUANT_LOADER(ID, name)                                                                                         \
    {                                                                                                                  \
        load_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_BYTES, RP_QUANT_FORM(ID),                            \
            RP_##ID##_ELEMS == 32 ? NULL : header_##name                                                               \
    }

#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top) < SIGNED, #name ": only with offset 128 quants have 8 bits");            \
    static_assert(RP_##ID##_ELEMS > 32 || RP_LOAD_BYTES(ID) <= MAX_BYTES, #name ": LastBlocks has room for a load");
RP_QUANTS(X)
#undef X

INLINE bool blocks_of_32(const QuantLoader *t) { return t->n_ksteps == 1; }

/* Bytes of one row's load. */
INLINE size_t load_bytes(const QuantLoader *t) { return blocks_of_32(t) ? RP_KSTEP_SUBS * t->block : t->block; }

INLINE PairShape pair_shape(const QuantLoader *t) {
    if (t->form.sub_elems == 16) return SHORT;
    return blocks_of_32(t) && t->form.offset != SIGNED ? HALVES : WHOLE;
}

/* header_<type> of a type in blocks of 32, which is not called. */
INLINE void no_header(const char *const *p, Header *out) { (void)p, (void)out; }

INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* 16 bytes at a in the lower half, 16 bytes at b in the upper. */
INLINE __m256i two_halves(const void *a, const void *b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
}

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

/* ---- the types ---- */

#define RP_LOADS_GEMV_AVX2
#include "fallback/quants/types.h"
#undef RP_LOADS_GEMV_AVX2

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
