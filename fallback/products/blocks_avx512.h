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
 * Signed quants are raised by 128. GEMV needs no transposition and loads four rows at a time instead
 * (gemv_load_avx512.h): the transposition pays from two columns on. */
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
    __m512i fifth[QUADS];                     /* bits above the fourth, of types that need them */
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

/* ---- the types ---- */

#define RP_LOADS_PANEL_AVX512
#include "fallback/quants/types.h"
#undef RP_LOADS_PANEL_AVX512
#endif
#endif
