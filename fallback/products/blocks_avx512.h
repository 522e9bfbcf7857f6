/* blocks_avx512.h - loads the blocks of 16 rows transposed, ready for a panel: lane r of each register is row r.
 *
 * A load (dot.h) comes in four steps. A step transposes some bytes of the 16 rows to `raw` and extracts one,
 * two or four sub-blocks from them, quad by quad (dot.h):
 *
 *     raw[k],  lane r = bytes 4k..4k+3 of row r
 *     quad(k), lane r = q[4k..4k+3] of row r, unsigned, offset included
 *
 *     type           sub-blocks of step s
 *     blocks of 32   s                                   all of block s
 *     Q4_K, Q5_K     2s, 2s + 1                          low and high nibbles of the same 32 bytes
 *     Q6_K           8(s/2) + s%2 + {0, 2, 4, 6}         low and high nibbles of two times 16 bytes
 *
 * Q8_0 is raised by 128. GEMV needs no transposition and loads four rows at a time instead (gemv_load_avx512.h): the
 * transposition pays from two columns on. */
#ifndef FALLBACK_PRODUCTS_BLOCKS_AVX512_H
#define FALLBACK_PRODUCTS_BLOCKS_AVX512_H

#include "fallback/products/blocks_x86.h"

#include <stddef.h>

#ifdef RP_X86
#define INLINE RP_TARGET_AVX512 RP_BODY

enum { LOAD_STEPS = 4, LOAD_SUBS = 16, RAW = 12, QUADS = 8, MAX_STEP_SUBS = 4 };

/* The addresses of 16 rows. Rows are usually `stride` bytes apart: four[g] is row 4g, and the others are reached by
 * address arithmetic, because 16 pointers would not fit in the registers. The last panel of a matrix may repeat its
 * last row; then `listed` is set and row[] has all 16 addresses. */
typedef struct PanelRows {
    const char  *four[4];
    size_t       stride, stride3;
    bool         listed;
    const char **row;
} PanelRows;

typedef struct Load {
    __m512i raw[RAW];
    __m512i fifth[QUADS]; /* Q5_K: BlockQ5_K.qh, quad by quad; Q5_0, Q5_1: [0] has qh of one block */
    __m512  scale[LOAD_SUBS], min[LOAD_SUBS]; /* of each sub-block */
} Load;

/* Loads the scales and minima of the first n_subs sub-blocks, and data that all steps share. */
typedef void BeginLoad(const PanelRows *rows, int n_subs, Load *l);
/* Fills raw (and fifth[0]) for a step. */
typedef void LoadStep(const PanelRows *rows, int step, Load *l);
/* Quad k of the step's sub-block v (sub_of). */
typedef __m512i LoadQuad(const Load *l, int step, int v, int k);

typedef struct PanelLoader {
    BeginLoad *begin;
    LoadStep  *step;
    LoadQuad  *quad;
    int        step_subs; /* 1, 2 or 4 */
    size_t     bytes;     /* of one row's load */
    QuantForm  form;
} PanelLoader;

/* A load has four steps, so a step has as many sub-blocks as the load has k-steps: 1, 2 or 4. */
#define PANEL_LOADER(ID, name)                                                                                         \
    { begin_##name, step_##name, quad_##name, RP_LOAD_KSTEPS(ID), RP_LOAD_BYTES(ID), RP_QUANT_FORM(ID) }

INLINE int load_subs(const PanelLoader *t) { return LOAD_STEPS * t->step_subs; }

/* Index within the load of the step's sub-block v: the table above. */
INLINE int sub_of(const PanelLoader *t, int step, int v) {
    if (t->step_subs == 4) return step / 2 * 8 + step % 2 + 2 * v;
    return step * t->step_subs + v;
}

typedef int32_t Quad __attribute__((may_alias, aligned(1)));

/* sum + w . x in each lane, with one quad of a column for all 16 rows. gcc 12 compiles the intrinsic to a separate
 * broadcast; the instruction can broadcast its memory operand itself. */
INLINE __m512i dot_quad(__m512i sum, __m512i w, const char *x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const Quad *)(const void *)x));
    return sum;
}

/* ---- rows ---- */

INLINE PanelRows strided_rows(const char *p, size_t stride) {
    return (PanelRows){
        .four = {p, p + 4 * stride, p + 8 * stride, p + 12 * stride},
          .stride = stride, .stride3 = 3 * stride
    };
}

/* Hides a stride from the optimiser. Otherwise gcc computes stride + offset outside the loop, one register for each
 * offset. Offsets are free in the addressing modes of the loads. */
INLINE size_t opaque(size_t v) {
    __asm__("" : "+r"(v));
    return v;
}

INLINE const char *row_at(const PanelRows *rows, int r) {
    if (rows->listed) return rows->row[r];
    const char  *p = rows->four[r / 4];
    const size_t s = opaque(rows->stride), s3 = opaque(rows->stride3);
    return r % 4 == 0 ? p : r % 4 == 1 ? p + s : r % 4 == 2 ? p + 2 * s : p + s3;
}

INLINE void next_load(PanelRows *rows, size_t bytes) {
    if (rows->listed)
        for (int r = 0; r < RP_PANEL_ROWS; r++) rows->row[r] += bytes;
    else
        for (int g = 0; g < 4; g++) rows->four[g] += bytes;
}

/* Quarter g = 16 bytes of row j + 4g. */
INLINE __m512i quarters(const PanelRows *rows, size_t at, int j) {
    const __m256i low  = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row_at(rows, j) + at)),
                                                 load16(row_at(rows, j + 4) + at), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row_at(rows, j + 8) + at)),
                                                 load16(row_at(rows, j + 12) + at), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Lower half = 32 bytes of row r, upper half = 32 bytes of row `other`. */
INLINE __m512i halves(const PanelRows *rows, size_t at, int r, int other) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load32(row_at(rows, r) + at)), load32(row_at(rows, other) + at),
                              1);
}

/* Transposes a 4 x 4 matrix of words in each quarter: out[k] word j = v[j] word k. */
INLINE void transpose_quarters(const __m512i v[4], __m512i out[4]) {
    const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]), high01 = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(v[2], v[3]), high23 = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm512_unpacklo_epi64(low01, low23);
    out[1] = _mm512_unpackhi_epi64(low01, low23);
    out[2] = _mm512_unpacklo_epi64(high01, high23);
    out[3] = _mm512_unpackhi_epi64(high01, high23);
}

/* 16 bytes of every row, from byte `at` on, as four words: out[k] lane r = word k of row r.
 * v[j] has rows j, j + 4, j + 8, j + 12 in its quarters, so the transposition leaves row r in lane r. */
INLINE void words_of_rows(const PanelRows *rows, size_t at, __m512i out[4]) {
    const __m512i v[4] = {quarters(rows, at, 0), quarters(rows, at, 1), quarters(rows, at, 2), quarters(rows, at, 3)};
    transpose_quarters(v, out);
}

/* 32 bytes of every row, as eight words: out[k] lane r = word k of row r. After the transposition of each half
 *
 *     a[k] = | word k, rows 0-3  | word k+4, rows 0-3  | word k, rows 4-7   | word k+4, rows 4-7   |
 *     b[k] = | word k, rows 8-11 | word k+4, rows 8-11 | word k, rows 12-15 | word k+4, rows 12-15 |
 *
 * and the shuffles take quarters 0 and 2 of both, or 1 and 3. */
INLINE void eight_words_of_rows(const PanelRows *rows, size_t at, __m512i out[8]) {
    __m512i v[4], w[4], a[4], b[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) v[j] = halves(rows, at, j, j + 4);
    transpose_quarters(v, a);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) w[j] = halves(rows, at, j + 8, j + 12);
    transpose_quarters(w, b);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        out[k]     = _mm512_shuffle_i32x4(a[k], b[k], 0x88);
        out[k + 4] = _mm512_shuffle_i32x4(a[k], b[k], 0xdd);
    }
}

/* The word at byte `at` of every row. */
INLINE __m512i word_of_rows(const PanelRows *rows, size_t at) {
    __m512i v = _mm512_castsi128_si512(_mm_cvtsi32_si128(word32(row_at(rows, 0) + at)));
#pragma GCC unroll 16
    for (int r = 1; r < RP_PANEL_ROWS; r++)
        v = _mm512_mask_set1_epi32(v, (__mmask16)(1 << r), word32(row_at(rows, r) + at));
    return v;
}

INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

/* (v & mask) | w */
INLINE __m512i bits_and_all(__m512i v, __m512i mask, __m512i w) { return _mm512_ternarylogic_epi32(v, mask, w, 0xea); }

/* ---- types in blocks of 32: step s is block s ---- */

/* The scales, half floats at the start of each block, of two blocks (2h and 2h + 1) of all rows at a time.
 *
 * To avoid 32 scalar loads and insertions, row r of four is loaded with an offset of -r words. So the scales of four
 * rows fall into neighbouring lanes of one register. `next` is the length of a block in words. Lanes that are masked
 * off are not read and cannot fault.
 *
 *     v[g] word   0       1       2       3      ...   next      next+1    next+2    next+3
 *     scale of    row 4g  4g+1    4g+2    4g+3         row 4g    4g+1      4g+2      4g+3
 *     block       2h      2h      2h      2h           2h+1      2h+1      2h+1      2h+1
 *
 * A permutation then orders the four registers by block and row. */
INLINE void half_scales(const PanelRows *rows, size_t block, int n_subs, Load *l) {
    const int next = (int)block / 2;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const int some = (n_subs > 2 * h ? 1 : 0) | (n_subs > 2 * h + 1 ? 1 << next : 0);
        __m512i   v[4];
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++) {
            v[g] = _mm512_setzero_si512();
#pragma GCC unroll 4
            for (int r = 0; r < 4 && some != 0; r++) {
                const char *from = row_at(rows, 4 * g + r) + 2 * (size_t)h * block - 2 * (size_t)r;
                if (next + 3 < 16)
                    v[g] = _mm512_castsi256_si512(
                        _mm256_mask_loadu_epi16(_mm512_castsi512_si256(v[g]), (__mmask16)(some << r), from));
                else
                    v[g] = _mm512_mask_loadu_epi16(v[g], (__mmask32)some << r, from);
            }
        }
#define WORD(u, n)    (short)((n) + (u)*next)
#define FOUR(u, from) WORD(u, (from) + 3), WORD(u, (from) + 2), WORD(u, (from) + 1), WORD(u, from)
        if (next + 3 < 16) { /* v[g] fits in 256 bits: two of them share a register */
            const __m512i low  = _mm512_inserti64x4(v[0], _mm512_castsi512_si256(v[1]), 1);
            const __m512i high = _mm512_inserti64x4(v[2], _mm512_castsi512_si256(v[3]), 1);
            v[0]               = _mm512_permutex2var_epi16(low,
                                                           _mm512_set_epi16(FOUR(1, 48), FOUR(1, 32), FOUR(1, 16), FOUR(1, 0),
                                                                            FOUR(0, 48), FOUR(0, 32), FOUR(0, 16), FOUR(0, 0)),
                                                           high);
        } else {
            const __m512i at = _mm512_set_epi16(0, 0, 0, 0, FOUR(1, 32), 0, 0, 0, 0, FOUR(1, 0), 0, 0, 0, 0,
                                                FOUR(0, 32), 0, 0, 0, 0, FOUR(0, 0));
            v[0]             = _mm512_unpacklo_epi64(_mm512_permutex2var_epi16(v[0], at, v[2]),
                                                     _mm512_permutex2var_epi16(v[1], at, v[3]));
        }
#undef FOUR
#undef WORD
        l->scale[2 * h]     = _mm512_cvtph_ps(_mm512_castsi512_si256(v[0]));
        l->scale[2 * h + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v[0], 1));
    }
}

/* Splits words of two half floats, (scale, minimum) or (d, dmin), and converts them. */
INLINE void two_halves_of_rows(__m512i word, __m512 *low, __m512 *high) {
    *low  = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(word));
    *high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(word, 16)));
}

/* The words (scale, minimum) at the start of each block. */
INLINE void scales_and_minima(const PanelRows *rows, size_t block, int n_subs, Load *l) {
#pragma GCC unroll 4
    for (int u = 0; u < LOAD_STEPS; u++) {
        l->scale[u] = l->min[u] = _mm512_setzero_ps();
        if (u < n_subs) two_halves_of_rows(word_of_rows(rows, (size_t)u * block), &l->scale[u], &l->min[u]);
    }
}

/* Quad k of a block of 32: element i is the low nibble of byte i, element i + 16 the high one. */
INLINE __m512i nibble_quad(const Load *l, int k) {
    return k < 4 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k - 4]);
}

/* nibble_quad with the fifth bits of elements 4k..4k+3. Those are four bits of a lane, and spread[] is a table of
 * their 16 values, with each bit at bit 4 of its byte. The permutation uses the low 4 bits of each lane as the
 * index. */
INLINE __m512i five_bit_quad(const Load *l, int k) {
#define BITS(n) ((n)&1) << 4 | ((n) >> 1 & 1) << 12 | ((n) >> 2 & 1) << 20 | ((n) >> 3) << 28
    const __m512i spread =
        _mm512_setr_epi32(BITS(0), BITS(1), BITS(2), BITS(3), BITS(4), BITS(5), BITS(6), BITS(7), BITS(8), BITS(9),
                          BITS(10), BITS(11), BITS(12), BITS(13), BITS(14), BITS(15));
#undef BITS
    const __m512i four = k == 0 ? l->fifth[0] : _mm512_srli_epi32(l->fifth[0], 4 * (unsigned)k);
    return _mm512_or_si512(nibble_quad(l, k), _mm512_permutexvar_epi32(four, spread));
}

#define NIBBLES(name, Block, scales, skip)                                                                             \
    INLINE void begin_##name(const PanelRows *rows, int n_subs, Load *l) { scales(rows, sizeof(Block), n_subs, l); }   \
    INLINE void step_##name(const PanelRows *rows, int step, Load *l) {                                                \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip), l->raw);                                            \
    }                                                                                                                  \
    INLINE __m512i quad_##name(const Load *l, int step, int v, int k) { return (void)step, (void)v, nibble_quad(l, k); }
NIBBLES(q4_0, BlockQ4_0, half_scales, 2)
NIBBLES(q4_1, BlockQ4_1, scales_and_minima, 4)
#undef NIBBLES

#define FIVE_BITS(name, Block, scales, skip)                                                                           \
    INLINE void begin_##name(const PanelRows *rows, int n_subs, Load *l) { scales(rows, sizeof(Block), n_subs, l); }   \
    INLINE void step_##name(const PanelRows *rows, int step, Load *l) {                                                \
        l->fifth[0] = word_of_rows(rows, (size_t)step * sizeof(Block) + (skip));                                       \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip) + 4, l->raw);                                        \
    }                                                                                                                  \
    INLINE __m512i quad_##name(const Load *l, int step, int v, int k) {                                                \
        return (void)step, (void)v, five_bit_quad(l, k);                                                               \
    }
FIVE_BITS(q5_0, BlockQ5_0, half_scales, 2)
FIVE_BITS(q5_1, BlockQ5_1, scales_and_minima, 4)
#undef FIVE_BITS

INLINE void begin_q8_0(const PanelRows *rows, int n_subs, Load *l) { half_scales(rows, sizeof(BlockQ8_0), n_subs, l); }
INLINE void step_q8_0(const PanelRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, (size_t)step * sizeof(BlockQ8_0) + 2, l->raw);
}
INLINE __m512i quad_q8_0(const Load *l, int step, int v, int k) {
    return (void)step, (void)v, _mm512_xor_si512(l->raw[k], _mm512_set1_epi8((char)0x80));
}

/* As mxfp4_scales, for 16 rows. */
INLINE void begin_mxfp4(const PanelRows *rows, int n_subs, Load *l) {
    const __m512i one = _mm512_set1_epi32(1);
#pragma GCC unroll 4
    for (int u = 0; u < LOAD_STEPS; u++) {
        l->scale[u] = _mm512_setzero_ps();
        if (u >= n_subs) continue;
        const __m512i word  = word_of_rows(rows, (size_t)u * sizeof(BlockMXFP4));
        const __m512i e     = _mm512_and_si512(word, _mm512_set1_epi32(255));
        const __m512i large = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), _mm512_min_epi32(e, one));
        l->scale[u]         = _mm512_castsi512_ps(_mm512_max_epi32(large, small));
    }
}
INLINE void step_mxfp4(const PanelRows *rows, int step, Load *l) {
    words_of_rows(rows, (size_t)step * sizeof(BlockMXFP4) + 1, l->raw);
}
INLINE __m512i quad_mxfp4(const Load *l, int step, int v, int k) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return (void)step, (void)v, _mm512_shuffle_epi8(values, nibble_quad(l, k));
}

/* ---- types in blocks of 256 ---- */

/* d * byte u % 4 of each word, unsigned. */
INLINE __m512 times_byte(__m512 d, __m512i words, int u) {
    const __m512i byte =
        u % 4 == 3 ? _mm512_srli_epi32(words, 24)
                   : _mm512_and_si512(_mm512_srli_epi32(words, 8 * (unsigned)(u % 4)), _mm512_set1_epi32(255));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(byte));
}

/* The first 16 bytes of a block: word 0 is d and dmin, words 1 to 3 are scales[12] (BlockQ4_K). Byte j of scales[g]
 * is the scale of sub-block 4g + j, byte j of minima[g] its minimum. */
INLINE void begin_q4_k(const PanelRows *rows, int n_subs, Load *l) {
    const __m512i six = _mm512_set1_epi8(0x3f), four = _mm512_set1_epi8(0x0f), two = _mm512_set1_epi8(0x30);
    __m512i       w[4];
    __m512        d, dmin;
    (void)n_subs;
    words_of_rows(rows, 0, w);
    two_halves_of_rows(w[0], &d, &dmin);
    const __m512i scales[2] = {_mm512_and_si512(w[1], six),
                               bits_and_all(_mm512_srli_epi32(w[1], 2), two, _mm512_and_si512(w[3], four))};
    const __m512i minima[2] = {
        _mm512_and_si512(w[2], six),
        bits_and_all(_mm512_srli_epi32(w[2], 2), two, _mm512_and_si512(_mm512_srli_epi32(w[3], 4), four))};
    dmin = _mm512_mul_ps(dmin, _mm512_set1_ps(-1.0f));
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) {
        l->scale[u] = times_byte(d, scales[u / 4], u);
        l->min[u]   = times_byte(dmin, minima[u / 4], u);
    }
}
INLINE void step_q4_k(const PanelRows *rows, int step, Load *l) {
    const size_t at = offsetof(BlockQ4_K, qs) + 32 * (size_t)step;
    eight_words_of_rows(rows, at, l->raw);
}
INLINE __m512i quad_q4_k(const Load *l, int step, int v, int k) {
    (void)step;
    return v == 0 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k]);
}

INLINE void begin_q5_k(const PanelRows *rows, int n_subs, Load *l) {
    begin_q4_k(rows, n_subs, l);
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qh), l->fifth);
}
INLINE void step_q5_k(const PanelRows *rows, int step, Load *l) {
    const size_t at = offsetof(BlockQ5_K, qs) + 32 * (size_t)step;
    eight_words_of_rows(rows, at, l->raw);
}
/* Moves bit u of each byte to bit 4. Other bits of the word move along and must be masked off. */
INLINE __m512i bit_at_4(__m512i v, int u) {
    switch (u) { /* clang takes only literal shift counts */
    case 0:
        return _mm512_slli_epi16(v, 4);
    case 1:
        return _mm512_slli_epi16(v, 3);
    case 2:
        return _mm512_slli_epi16(v, 2);
    case 3:
        return _mm512_slli_epi16(v, 1);
    case 5:
        return _mm512_srli_epi16(v, 1);
    case 6:
        return _mm512_srli_epi16(v, 2);
    case 7:
        return _mm512_srli_epi16(v, 3);
    default:
        return v;
    }
}
INLINE __m512i quad_q5_k(const Load *l, int step, int v, int k) {
    return bits_and_all(bit_at_4(l->fifth[k], 2 * step + v), _mm512_set1_epi8(16), quad_q4_k(l, step, v, k));
}

/* d is loaded as in half_scales: row r falls into lane r % 8. The 16 scales are signed bytes of four words. */
INLINE void begin_q6_k(const PanelRows *rows, int n_subs, Load *l) {
    __m512i words[4];
    __m128i half[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    (void)n_subs;
    words_of_rows(rows, offsetof(BlockQ6_K, scales), words);
#pragma GCC unroll 16
    for (int r = 0; r < RP_PANEL_ROWS; r++)
        half[r / 8] = _mm_mask_loadu_epi16(half[r / 8], (__mmask8)(1 << r % 8),
                                           row_at(rows, r) + offsetof(BlockQ6_K, d) - 2 * (size_t)(r % 8));
    const __m512 d = _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(half[0]), half[1], 1));
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) {
        const __m512i up   = _mm512_slli_epi32(words[u / 4], (unsigned)(24 - 8 * (u % 4)));
        const __m512i byte = _mm512_srai_epi32(u % 4 == 3 ? words[u / 4] : up, 24);
        l->scale[u]        = _mm512_mul_ps(d, _mm512_cvtepi32_ps(byte));
    }
}
/* Step 2h + i: elements 16i.. of half h, that is raw[0..3] = ql[64h + 16i], raw[4..7] = ql[64h + 32 + 16i],
 * raw[8..11] = qh[32h + 16i], 16 bytes each. Sub-blocks v = 0..3 are the four lines of the table at BlockQ6_K. */
INLINE void step_q6_k(const PanelRows *rows, int step, Load *l) {
    const size_t h = (size_t)step / 2, i = (size_t)step % 2;
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 16 * i, l->raw);
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 32 + 16 * i, l->raw + 4);
    words_of_rows(rows, offsetof(BlockQ6_K, qh) + 32 * h + 16 * i, l->raw + 8);
}
INLINE __m512i quad_q6_k(const Load *l, int step, int v, int k) {
    const __m512i two = l->raw[8 + k], four = l->raw[v % 2 * 4 + k];
    const __m512i moved = v == 0   ? _mm512_slli_epi16(two, 4)
                          : v == 1 ? _mm512_slli_epi16(two, 2)
                          : v == 2 ? two
                                   : _mm512_srli_epi16(two, 2);
    (void)step;
    return bits_and_all(moved, _mm512_set1_epi8(0x30), v < 2 ? low_nibbles(four) : high_nibbles(four));
}
#endif
#endif
