/* blocks_avx2.h - loads the blocks of 8 rows transposed, ready for half a panel: lane r of each register is row r.
 *
 * The steps, sub-blocks and quads of a load are those of blocks_avx512.h, which does the same for 16 rows; raw[k] and
 * quad(k) are defined there. Quants of Q8_0 stay signed. GEMV needs no transposition and loads four rows at a time
 * instead (gemv_load_avx2.h). */
#ifndef FALLBACK_PRODUCTS_BLOCKS_AVX2_H
#define FALLBACK_PRODUCTS_BLOCKS_AVX2_H

#include "fallback/products/blocks_x86.h"

#include <stddef.h>

#ifdef RP_X86
#define INLINE INLINE_AVX2

enum {
    SIDE_ROWS  = 8, /* rows in a register: half a panel */
    LOAD_STEPS = 4,
    LOAD_SUBS  = 16,
    RAW        = 12,
    QUADS      = 8,
    SIGNED     = 128 /* offset of Q8_0: its q stay signed */
};

/* 8 rows, `stride` bytes apart: the addresses of rows 0 and 4; the others are reached by address arithmetic, because 8
 * pointers would not fit in the registers. */
typedef struct SideRows {
    const char *first, *fifth;
    size_t      stride, stride3;
} SideRows;

typedef struct Load {
    __m256i raw[RAW];
    __m256i fifth[QUADS]; /* Q5_K: BlockQ5_K.qh, quad by quad; Q5_0, Q5_1: [0] has qh of one block */
    __m256  scale[LOAD_SUBS], min[LOAD_SUBS]; /* of each sub-block */
} Load;

/* Loads what all steps share: the scales and minima of types in blocks of 256. */
typedef void BeginLoad(const SideRows *rows, Load *l);
/* Fills raw for a step; in types in blocks of 32 also fifth[0], scale and min. */
typedef void LoadStep(const SideRows *rows, int step, Load *l);
/* Quad k of the step's sub-block v (sub_of). */
typedef __m256i LoadQuad(const Load *l, int step, int v, int k);

typedef struct SideLoader {
    BeginLoad *begin;
    LoadStep  *step;
    LoadQuad  *quad;
    int        step_subs; /* 1, 2 or 4 */
    size_t     bytes;     /* of one row's load */
    QuantForm  form;
} SideLoader;

/* A load has four steps, so a step has as many sub-blocks as the load has k-steps: 1, 2 or 4. */
#define SIDE_LOADER(ID, name)                                                                                          \
    { begin_##name, step_##name, quad_##name, RP_LOAD_KSTEPS(ID), RP_LOAD_BYTES(ID), RP_QUANT_FORM(ID) }

INLINE int load_subs(const SideLoader *t) { return LOAD_STEPS * t->step_subs; }

/* Index within the load of the step's sub-block v: the table in blocks_avx512.h. */
INLINE int sub_of(const SideLoader *t, int step, int v) {
    if (t->step_subs == 4) return step / 2 * 8 + step % 2 + 2 * v;
    return step * t->step_subs + v;
}

/* ---- rows ---- */

INLINE SideRows side_rows(const char *p, size_t stride) { return (SideRows){p, p + 4 * stride, stride, 3 * stride}; }

INLINE const char *row_at(const SideRows *rows, int r) {
    const char *p = r < 4 ? rows->first : rows->fifth;
    return r % 4 == 0 ? p : r % 4 == 1 ? p + rows->stride : r % 4 == 2 ? p + 2 * rows->stride : p + rows->stride3;
}

INLINE void next_load(SideRows *rows, size_t bytes) {
    rows->first += bytes;
    rows->fifth += bytes;
}

/* 16 bytes of every row, from byte `at` on, as four words: out[k] lane r = word k of row r. v[j] has rows j and
 * j + 4 in its halves, so a 4 x 4 transposition of each half leaves row r in lane r. */
INLINE void words_of_rows(const SideRows *rows, size_t at, __m256i out[4]) {
    __m256i v[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        v[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row_at(rows, j) + at)),
                                       load16(row_at(rows, j + 4) + at), 1);
    const __m256i low01 = _mm256_unpacklo_epi32(v[0], v[1]), high01 = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(v[2], v[3]), high23 = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm256_unpacklo_epi64(low01, low23);
    out[1] = _mm256_unpackhi_epi64(low01, low23);
    out[2] = _mm256_unpacklo_epi64(high01, high23);
    out[3] = _mm256_unpackhi_epi64(high01, high23);
}

INLINE void eight_words_of_rows(const SideRows *rows, size_t at, __m256i out[8]) {
    words_of_rows(rows, at, out);
    words_of_rows(rows, at + 16, out + 4);
}

/* The 16-bit words at byte `at` of every row, from two chains of insertions. */
INLINE __m128i halves_of_rows(const SideRows *rows, size_t at) {
    __m128i a = _mm_cvtsi32_si128(word16(row_at(rows, 0) + at)), b = _mm_cvtsi32_si128(word16(row_at(rows, 4) + at));
    a = _mm_insert_epi16(a, word16(row_at(rows, 1) + at), 1);
    b = _mm_insert_epi16(b, word16(row_at(rows, 5) + at), 1);
    a = _mm_insert_epi16(a, word16(row_at(rows, 2) + at), 2);
    b = _mm_insert_epi16(b, word16(row_at(rows, 6) + at), 2);
    a = _mm_insert_epi16(a, word16(row_at(rows, 3) + at), 3);
    b = _mm_insert_epi16(b, word16(row_at(rows, 7) + at), 3);
    return _mm_unpacklo_epi64(a, b);
}

/* The words at byte `at` of four rows, from row r on. */
INLINE __m128i four_words(const SideRows *rows, size_t at, int r) {
    __m128i v = _mm_cvtsi32_si128(word32(row_at(rows, r) + at));
    v         = _mm_insert_epi32(v, word32(row_at(rows, r + 1) + at), 1);
    v         = _mm_insert_epi32(v, word32(row_at(rows, r + 2) + at), 2);
    return _mm_insert_epi32(v, word32(row_at(rows, r + 3) + at), 3);
}

/* The word at byte `at` of every row. */
INLINE __m256i word_of_rows(const SideRows *rows, size_t at) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(four_words(rows, at, 0)), four_words(rows, at, 4), 1);
}

INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* (v & mask) | w */
INLINE __m256i bits_and_all(__m256i v, __m256i mask, __m256i w) {
    return _mm256_or_si256(_mm256_and_si256(v, mask), w);
}

/* ---- types in blocks of 32: step s is block s ---- */

INLINE void nothing_shared(const SideRows *rows, Load *l) { (void)rows, (void)l; }

/* The half floats at the start of block s. */
INLINE void only_scale(const SideRows *rows, size_t block, int s, Load *l) {
    l->scale[s] = _mm256_cvtph_ps(halves_of_rows(rows, (size_t)s * block));
}

/* Splits words of two half floats, (scale, minimum) or (d, dmin), and converts them. */
INLINE void two_halves_of_rows(__m256i word, __m256 *low, __m256 *high) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i apart = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(word, order), 0xd8);
    *low                = _mm256_cvtph_ps(_mm256_castsi256_si128(apart));
    *high               = _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1));
}

/* The words (scale, minimum) at the start of block s. */
INLINE void scale_and_minimum(const SideRows *rows, size_t block, int s, Load *l) {
    two_halves_of_rows(word_of_rows(rows, (size_t)s * block), &l->scale[s], &l->min[s]);
}

/* Quad k of a block of 32: element i is the low nibble of byte i, element i + 16 the high one. */
INLINE __m256i nibble_quad(const Load *l, int k) {
    return k < 4 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k - 4]);
}

/* nibble_quad with the fifth bits of elements 4k..4k+3: four bits of byte k / 2 of each lane. The shuffle copies that
 * byte to the whole lane, and `bit` tests one of its bits in each byte. */
INLINE __m256i five_bit_quad(const Load *l, int k) {
    const int     byte = k / 2 * 0x01010101;
    const __m128i at   = _mm_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c);
    const __m256i bit  = _mm256_set1_epi32((int)(0x08040201u << k % 2 * 4));
    const __m256i copy = _mm256_shuffle_epi8(l->fifth[0], _mm256_broadcastsi128_si256(at));
    const __m256i set  = _mm256_cmpeq_epi8(_mm256_and_si256(copy, bit), bit);
    return bits_and_all(set, _mm256_set1_epi8(16), nibble_quad(l, k));
}

#define NIBBLES(name, Block, scales, skip)                                                                             \
    INLINE void begin_##name(const SideRows *rows, Load *l) { nothing_shared(rows, l); }                               \
    INLINE void step_##name(const SideRows *rows, int step, Load *l) {                                                 \
        scales(rows, sizeof(Block), step, l);                                                                          \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip), l->raw);                                            \
    }                                                                                                                  \
    INLINE __m256i quad_##name(const Load *l, int step, int v, int k) { return (void)step, (void)v, nibble_quad(l, k); }
NIBBLES(q4_0, BlockQ4_0, only_scale, 2)
NIBBLES(q4_1, BlockQ4_1, scale_and_minimum, 4)
#undef NIBBLES

#define FIVE_BITS(name, Block, scales, skip)                                                                           \
    INLINE void begin_##name(const SideRows *rows, Load *l) { nothing_shared(rows, l); }                               \
    INLINE void step_##name(const SideRows *rows, int step, Load *l) {                                                 \
        scales(rows, sizeof(Block), step, l);                                                                          \
        l->fifth[0] = word_of_rows(rows, (size_t)step * sizeof(Block) + (skip));                                       \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip) + 4, l->raw);                                        \
    }                                                                                                                  \
    INLINE __m256i quad_##name(const Load *l, int step, int v, int k) {                                                \
        return (void)step, (void)v, five_bit_quad(l, k);                                                               \
    }
FIVE_BITS(q5_0, BlockQ5_0, only_scale, 2)
FIVE_BITS(q5_1, BlockQ5_1, scale_and_minimum, 4)
#undef FIVE_BITS

INLINE void begin_q8_0(const SideRows *rows, Load *l) { nothing_shared(rows, l); }
INLINE void step_q8_0(const SideRows *rows, int step, Load *l) {
    only_scale(rows, sizeof(BlockQ8_0), step, l);
    eight_words_of_rows(rows, (size_t)step * sizeof(BlockQ8_0) + 2, l->raw);
}
INLINE __m256i quad_q8_0(const Load *l, int step, int v, int k) { return (void)step, (void)v, l->raw[k]; }

/* As mxfp4_scales, for 8 rows. */
INLINE void begin_mxfp4(const SideRows *rows, Load *l) { nothing_shared(rows, l); }
INLINE void step_mxfp4(const SideRows *rows, int step, Load *l) {
    const __m256i one    = _mm256_set1_epi32(1);
    const __m256i word   = word_of_rows(rows, (size_t)step * sizeof(BlockMXFP4));
    const __m256i e      = _mm256_and_si256(word, _mm256_set1_epi32(255));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small  = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    l->scale[step]       = _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
    words_of_rows(rows, (size_t)step * sizeof(BlockMXFP4) + 1, l->raw);
}
INLINE __m256i quad_mxfp4(const Load *l, int step, int v, int k) {
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return (void)step, (void)v, _mm256_shuffle_epi8(values, nibble_quad(l, k));
}

/* ---- types in blocks of 256 ---- */

/* d * byte u % 4 of each word, unsigned. */
INLINE __m256 times_byte(__m256 d, __m256i words, int u) {
    const __m256i byte = u % 4 == 3 ? _mm256_srli_epi32(words, 24)
                                    : _mm256_and_si256(_mm256_srli_epi32(words, 8 * (u % 4)), _mm256_set1_epi32(255));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(byte));
}

/* The first 16 bytes of a block: word 0 is d and dmin, words 1 to 3 are scales[12] (BlockQ4_K). Byte j of scales[g]
 * is the scale of sub-block 4g + j, byte j of minima[g] its minimum. */
INLINE void begin_q4_k(const SideRows *rows, Load *l) {
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f), two = _mm256_set1_epi8(0x30);
    __m256i       w[4];
    __m256        d, dmin;
    words_of_rows(rows, 0, w);
    two_halves_of_rows(w[0], &d, &dmin);
    const __m256i scales[2] = {_mm256_and_si256(w[1], six),
                               bits_and_all(_mm256_srli_epi32(w[1], 2), two, _mm256_and_si256(w[3], four))};
    const __m256i minima[2] = {
        _mm256_and_si256(w[2], six),
        bits_and_all(_mm256_srli_epi32(w[2], 2), two, _mm256_and_si256(_mm256_srli_epi32(w[3], 4), four))};
    dmin = _mm256_xor_ps(dmin, _mm256_set1_ps(-0.0f));
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) {
        l->scale[u] = times_byte(d, scales[u / 4], u);
        l->min[u]   = times_byte(dmin, minima[u / 4], u);
    }
}
INLINE void step_q4_k(const SideRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, offsetof(BlockQ4_K, qs) + 32 * (size_t)step, l->raw);
}
INLINE __m256i quad_q4_k(const Load *l, int step, int v, int k) {
    (void)step;
    return v == 0 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k]);
}

INLINE void begin_q5_k(const SideRows *rows, Load *l) {
    begin_q4_k(rows, l);
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qh), l->fifth);
}
INLINE void step_q5_k(const SideRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qs) + 32 * (size_t)step, l->raw);
}
/* Moves bit u of each byte to bit 4. Other bits of the word move along and must be masked off. */
INLINE __m256i bit_at_4(__m256i v, int u) { return u < 4 ? _mm256_slli_epi16(v, 4 - u) : _mm256_srli_epi16(v, u - 4); }
INLINE __m256i quad_q5_k(const Load *l, int step, int v, int k) {
    return bits_and_all(bit_at_4(l->fifth[k], 2 * step + v), _mm256_set1_epi8(16), quad_q4_k(l, step, v, k));
}

/* The 16 scales are signed bytes of four words. */
INLINE void begin_q6_k(const SideRows *rows, Load *l) {
    __m256i words[4];
    words_of_rows(rows, offsetof(BlockQ6_K, scales), words);
    const __m256 d = _mm256_cvtph_ps(halves_of_rows(rows, offsetof(BlockQ6_K, d)));
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) {
        const __m256i up = _mm256_slli_epi32(words[u / 4], 24 - 8 * (u % 4));
        l->scale[u]      = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(up, 24)));
    }
}
/* Step 2h + i: elements 16i.. of half h, that is raw[0..3] = ql[64h + 16i], raw[4..7] = ql[64h + 32 + 16i],
 * raw[8..11] = qh[32h + 16i], 16 bytes each. Sub-blocks v = 0..3 are the four lines of the table at BlockQ6_K. */
INLINE void step_q6_k(const SideRows *rows, int step, Load *l) {
    const size_t h = (size_t)step / 2, i = (size_t)step % 2;
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 16 * i, l->raw);
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 32 + 16 * i, l->raw + 4);
    words_of_rows(rows, offsetof(BlockQ6_K, qh) + 32 * h + 16 * i, l->raw + 8);
}
INLINE __m256i quad_q6_k(const Load *l, int step, int v, int k) {
    const __m256i two = l->raw[8 + k], four = l->raw[v % 2 * 4 + k];
    const __m256i moved = v < 2 ? _mm256_slli_epi16(two, 4 - 2 * v) : _mm256_srli_epi16(two, 2 * v - 4);
    (void)step;
    return bits_and_all(moved, _mm256_set1_epi8(0x30), v < 2 ? low_nibbles(four) : high_nibbles(four));
}
#endif
#endif
