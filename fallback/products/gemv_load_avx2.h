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
 *     WHOLE     A[0..15]      A[16..31]      B[0..15]      B[16..31]        Q8_0, Q4_K, Q5_K
 *     SHORT     A[0..15]      B[0..15]       0             0                sub-blocks of 16 */
typedef enum PairShape { HALVES, WHOLE, SHORT } PairShape;

/* Pair h of k-step j of the load at p. */
typedef void LoadPair(const char *p, int j, int h, __m256i q[2]);

/* A pair of sub-blocks of the column, in the order of the weights' pair. The union has what the type needs:
 *
 *     sum         of types with minima, in the order of PairScales
 *     offset      of types with an offset: offset * (sum of q), as 16-bit partial sums
 *     magnitude   of others: |q| */
typedef struct ColumnPair {
    __m256i q[2];
    __m256  scale;
    union {
        __m256  sum;
        __m256i offset, magnitude[2];
    };
} ColumnPair;

/* Scales and minima of a pair of four rows, in the order above. */
typedef struct PairScales {
    __m256 scale, min;
} PairScales;

/* The entries of a block with a codebook: their places (at_<name>), and their signs as expand_avx2.h needs them. */
typedef struct CodebookEntries {
    _Alignas(32) uint16_t at[64];
    _Alignas(32) uint8_t signs[64];
} CodebookEntries;

/* The headers of super-blocks of four rows, extracted once a load: d and -dmin of row l % 4 in lane l, and the
 * integer scales, as bytes:
 *
 *     Q4_K, Q5_K   factor[j]       byte 4r + u = scale of sub-block u of k-step j, row r; factor[2 + j] the minima
 *     Q6_K, Q3_K   factor[j]       byte 4u + r = the same, signed; Q2_K: scale and minimum in a byte */
typedef struct Header {
    __m256  d, dmin;
    __m128i factor[MAX_KSTEPS];
    __m256  scale[MAX_SUBS / 2], min[MAX_SUBS / 2]; /* of expanded types: pair by pair, in the order of PairScales */
    CodebookEntries entries[ROWS];                  /* of types with a codebook */
} Header;

/* The dot products of pair h of k-step j of the four rows whose loads are at p, in the order of PairScales. */
typedef __m256i PairSums(const char *const *p, const Header *header, int j, int h, const ColumnPair *x);

/* Scales of pair h of k-step j, of four rows whose loads are at p. */
typedef void LoadScales(const char *const *p, const Header *header, int j, int h, PairScales *out);

typedef void LoadHeader(const char *const *p, Header *out);

typedef struct QuantLoader {
    LoadPair   *load; /* NULL: sums, */
    PairSums   *sums; /* which is NULL where there is a load */
    LoadScales *scales;
    int         n_ksteps;
    size_t      block;  /* bytes */
    QuantForm   form;   /* form.offset is subtracted, as ColumnPair.offset */
    LoadHeader *header; /* NULL in blocks of 32, whose scales stand in each block */
} QuantLoader;

/* DIRECT_LOADER is the loader of a type in RP_DIRECT_QUANTS; the next macro is for all other types. */
#define DIRECT_LOADER(ID, name)                                                                                        \
    {                                                                                                                  \
        load_##name, NULL, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_BYTES, RP_QUANT_FORM(ID),                      \
            RP_##ID##_ELEMS == 32 ? NULL : header_##name                                                               \
    }
#define SUMS_LOADER(ID, name)                                                                                          \
    {                                                                                                                  \
        NULL, sums_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_BYTES,                                         \
            {RP_##ID##_SUB, LEFT_##name, RP_##ID##_HAS_MIN, RP_##ID##_TOP},                                            \
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
    if (t->sums != NULL) return HALVES;
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

/* ---- sums across lanes: lane r of each half is the sum of that half of v[r] ---- */

/* Here v has lanes of 32 bits. */
INLINE __m256i sums_of_32(const __m256i v[ROWS]) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

/* Here v has lanes of 16 bits; the sum of two of them fits in 16 bits. */
INLINE __m256i sums_of_16(const __m256i v[ROWS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    return _mm256_hadd_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
}

/* Here v has lanes of 16 bits; the sum of four of them fits in 16 bits, and `offset` is subtracted from these sums. */
INLINE __m256i sums_less_offset(const __m256i v[ROWS], __m256i offset) {
    const __m256i a = _mm256_hadd_epi16(v[0], v[1]), b = _mm256_hadd_epi16(v[2], v[3]);
    return _mm256_madd_epi16(_mm256_sub_epi16(_mm256_hadd_epi16(a, b), offset), _mm256_set1_epi16(1));
}

/* 16-bit sums of two products, all as 32-bit sums of four. */
INLINE __m256i sums_of_pairs(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

/* Sums of two products w . x as |x| . (w with x's sign), for w > -128. */
INLINE __m256i signed_products(__m256i w, const ColumnPair *x, int i) {
    return _mm256_maddubs_epi16(x->magnitude[i], _mm256_sign_epi8(w, x->q[i]));
}

/* For types whose q are unsigned, in pairs of HALVES or of SHORT sub-blocks. All products of half a sub-block fit in 16
 * bits. */
INLINE __m256i unsigned_sums(LoadPair *load, PairShape shape, const char *const *p, int j, int h, const ColumnPair *x,
                             __m256i offset) {
    __m256i v[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256i q[2];
        load(p[r], j, h, q);
        v[r] = _mm256_maddubs_epi16(q[0], x->q[0]);
        if (shape == HALVES) v[r] = _mm256_add_epi16(v[r], _mm256_maddubs_epi16(q[1], x->q[1]));
    }
    return sums_less_offset(v, offset);
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

/* The half floats at byte `at` of four rows, in both halves. */
INLINE __m256 halves_of_rows(const char *const *p, size_t at) {
    __m128i d = _mm_cvtsi32_si128(word16(p[0] + at));
    d         = _mm_insert_epi16(d, word16(p[1] + at), 1);
    d         = _mm_insert_epi16(d, word16(p[2] + at), 2);
    d         = _mm_insert_epi16(d, word16(p[3] + at), 3);
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(d, d));
}

/* The 16 bytes at byte `at` of four rows, as Header.factor of Q6_K. */
INLINE void bytes_of_rows(const char *const *p, size_t at, __m128i out[4]) {
    const __m128i a = load16(p[0] + at), b = load16(p[1] + at), c = load16(p[2] + at), e = load16(p[3] + at);
    const __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
    const __m128i ce_low = _mm_unpacklo_epi8(c, e), ce_high = _mm_unpackhi_epi8(c, e);
    out[0] = _mm_unpacklo_epi16(ab_low, ce_low);
    out[1] = _mm_unpackhi_epi16(ab_low, ce_low);
    out[2] = _mm_unpacklo_epi16(ab_high, ce_high);
    out[3] = _mm_unpackhi_epi16(ab_high, ce_high);
}

/* The eight bytes of Header.factor that belong to pair h, for Q6_K. */
INLINE __m128i bytes_of_pair(__m128i factor, int h) { return h == 0 ? factor : _mm_unpackhi_epi64(factor, factor); }

/* ---- scales: eight at a time for types in blocks of 256; a block of 32 begins with its scale ---- */

#define ROW_SCALES(ID, name)                                                                                           \
    INLINE void scales_of_rows_##name(const char *const *p, Header *out) {                                             \
        for (int part = 0; part < RP_##ID##_ELEMS / RP_##ID##_SUB / 8; part++) {                                       \
            __m256 scale[ROWS], min[ROWS];                                                                             \
            for (int r = 0; r < ROWS; r++)                                                                             \
                scale[r] = sub_scales_##name##_avx2((const Block##ID *)(const void *)p[r], part, &min[r]);             \
            pairs_of_rows(scale, out->scale + 4 * part);                                                               \
            if (RP_##ID##_HAS_MIN) pairs_of_rows(min, out->min + 4 * part);                                            \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void scales_##name(const char *const *p, const Header *header, int j, int h, PairScales *out) {             \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            only_scales(p, RP_##ID##_BYTES, h, out);                                                                   \
            return;                                                                                                    \
        }                                                                                                              \
        out->scale = header->scale[2 * j + h];                                                                         \
        out->min   = RP_##ID##_HAS_MIN ? header->min[2 * j + h] : _mm256_setzero_ps();                                 \
    }

/* ---- types with a codebook: magnitudes and signs ---- */

/* CodebookEntries.signs of IQ2 and IQ3: a word of 16 bits for each 8 signs, with the even ones in bits 1, 3, 5 and 7
 * and the odd ones in bits 9, 11, 13 and 15. Bits 0 and 8 are set. Words 0-7, 16-23, 8-15 and 24-31, in this order. */
INLINE void put_signs(__m256i signs, uint8_t *out) {
    const __m256i one = _mm256_set1_epi8(1), even = _mm256_and_si256(signs, _mm256_set1_epi8(0x55));
    const __m256i odd = _mm256_or_si256(_mm256_and_si256(signs, _mm256_set1_epi8((char)0xaa)), one);
    const __m256i up  = _mm256_or_si256(_mm256_add_epi8(even, even), one);
    _mm256_store_si256((void *)out, _mm256_unpacklo_epi8(up, odd));
    _mm256_store_si256((void *)(out + 32), _mm256_unpackhi_epi8(up, odd));
}

/* The 8 words of signs of elements 64i to 64i + 63. */
INLINE __m256i signs_of_64(const CodebookEntries *e, int i) {
    return _mm256_broadcastsi128_si256(_mm_load_si128((const void *)(e->signs + i % 2 * 32 + i / 2 * 16)));
}

/* x with the signs of words a and b, then of c and d. Words are multiplied to bring the signs of two elements to bits 7
 * and 15: what overflows from the first byte stays below the bits of the second. */
INLINE __m256i with_signs(__m256i x, __m256i signs, int a, int b, int c, int d) {
#define FOUR(k) (int64_t)(0x0100010001000100 + (uint64_t)(k)*0x0202020202020202)
    const __m256i of = _mm256_setr_epi64x(FOUR(a), FOUR(b), FOUR(c), FOUR(d));
#undef FOUR
    const __m256i by = _mm256_set1_epi64x(0x0001000400100040);
    return _mm256_sign_epi8(x, _mm256_mullo_epi16(_mm256_shuffle_epi8(signs, of), by));
}

/* Four entries of 8 elements, and two times four entries of 4 elements. */
#define TAKE8(name, codebook, a, b, c, d)                                                                              \
    rp_take_four_avx2(codebook, (int[]){at_##name(block, e->at, a), at_##name(block, e->at, b),                        \
                                        at_##name(block, e->at, c), at_##name(block, e->at, d)})
#define TAKE4(name, a, b)                                                                                              \
    rp_take_eight_avx2(rp_codebook_##name,                                                                             \
                       (int[]){at_##name(block, e->at, a), at_##name(block, e->at, (a) + 1),                           \
                               at_##name(block, e->at, (a) + 2), at_##name(block, e->at, (a) + 3),                     \
                               at_##name(block, e->at, b), at_##name(block, e->at, (b) + 1),                           \
                               at_##name(block, e->at, (b) + 2), at_##name(block, e->at, (b) + 3)})

#define SIGNS_HEADER(ID, name)                                                                                         \
    ROW_SCALES(ID, name)                                                                                               \
    enum { LEFT_##name = 0 };                                                                                          \
    INLINE void header_##name(const char *const *p, Header *out) {                                                     \
        scales_of_rows_##name(p, out);                                                                                 \
        for (int r = 0; r < ROWS; r++) {                                                                               \
            CodebookEntries *e = &out->entries[r];                                                                     \
            put_signs(entries_##name##_avx2((const Block##ID *)(const void *)p[r], e->at), e->signs);                  \
        }                                                                                                              \
    }

/* ---- the types ---- */

#define RP_LOADS_GEMV_AVX2
#include "fallback/quants/types.h"
#undef RP_LOADS_GEMV_AVX2
#undef SIGNS_HEADER
#undef TAKE8
#undef TAKE4

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
