/* blocks_avx2.h - loads the blocks of 8 rows transposed, ready for half a panel: lane r of each register is row r.
 *
 * The steps, sub-blocks and quads of a load are those of blocks_avx512.h, which does the same for 16 rows; raw[k] and
 * quad(k) are defined there. Quants with offset 128 stay signed. GEMV needs no transposition and loads four
 * rows at a time instead (gemv_load_avx2.h). */
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
    SIGNED     = 128, /* offset of types whose q stay signed */
    FOUR_BITS  = 15,
    RAISE      = 16, /* makes signed q from -16 to 15 unsigned */
    RAISED_TOP = SIGNED + RAISE - 1
};

/* 8 rows, `stride` bytes apart: the addresses of rows 0 and 4; the others are reached by address arithmetic, because 8
 * pointers would not fit in the registers. */
typedef struct SideRows {
    const char *first, *fifth;
    size_t      stride, stride3;
} SideRows;

typedef struct Load {
    __m256i raw[RAW];
    __m256i fifth[QUADS];                     /* bits above the fourth, of types that need them */
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

/* ---- products of quads ---- */

INLINE __m256i quad_of_column(const char *x) { return _mm256_set1_epi32(word32(x)); }

INLINE __m256i madd_ones(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

/* Signed types whose q are all from -RAISE to RAISE - 1: the tile adds RAISE to them. */
INLINE bool is_raised(const QuantForm *form) { return form->offset == SIGNED && form->top <= RAISED_TOP; }

/* Quads whose products can be added in 16 bits, two products a lane and quad:
 *
 *     q of 4 bits            8 quads   15 * 128 * 16 = 30720
 *     Q6_K                   2 quads   63 * 128 * 4  = 32256
 *     other types, raised    4 quads   31 * 128 * 8  = 31744 at most
 *     other signed types     1 quad   128 * 127 * 2  = 32512: activations are never -128 */
INLINE int quads_at_a_time(const QuantForm *form) {
    const int quads = form->sub_elems / RP_QUAD;
    if (is_raised(form)) return 4;
    if (form->offset == SIGNED) return 1;
    return form->top <= FOUR_BITS ? quads : quads / 2;
}
static_assert((2 * RAISE - 1) * 128 * 8 <= INT16_MAX, "the products of four raised quads fit in 16 bits");

#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == SIGNED || (top)*128 * ((top) <= FOUR_BITS ? (sub) / 2 : (sub) / 4) <= INT16_MAX,         \
                  #name ": the products that quads_at_a_time adds fit in 16 bits");
RP_QUANTS(X)
#undef X

/* ---- the types ---- */

#define RP_LOADS_PANEL_AVX2
#include "fallback/quants/types.h"
#undef RP_LOADS_PANEL_AVX2
#endif
#endif
