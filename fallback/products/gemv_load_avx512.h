/* gemv_load_avx512.h - loads for GEMV: k-steps of weights and of the column in AVX-512 registers.
 *
 * A quarter of a register (16 bytes, four 32-bit lanes) is a sub-block, and a row's k-step is
 *
 *     quarter            0            1            2            3
 *     a   32-elem subs   sub 0: 0-15  sub 1: 0-15  sub 2: 0-15  sub 3: 0-15      q, unsigned, offset included
 *     b                  sub 0: 16-31 sub 1: 16-31 sub 2: 16-31 sub 3: 16-31
 *     a   16-elem subs   sub 0        sub 1        sub 2        sub 3            b = 0
 *
 * Each weight type has a function that loads one row's k-steps from the blocks of the file (a load, dot.h) and
 * one that loads the scales of four rows. GEMM loads 16 rows transposed instead (blocks_avx512.h). */
#ifndef FALLBACK_PRODUCTS_GEMV_LOAD_AVX512_H
#define FALLBACK_PRODUCTS_GEMV_LOAD_AVX512_H

#include "fallback/products/blocks_x86.h"

#include <stddef.h>

#ifdef RP_X86
#define INLINE RP_TARGET_AVX512 RP_BODY

/* One row's k-step: the table above. Types with `negative` masks have the magnitudes of q there. Elements of set bits
 * are negative. */
typedef struct Kstep {
    __m512i   a, b;
    __mmask64 negative_a, negative_b;
} Kstep;

/* The scales and minima of a k-step of four rows: lane 4u + r is sub-block u of row r. */
typedef struct KstepScales {
    __m512 scale, min;
} KstepScales;

/* A k-step of the column: q as a row's, scale and sum in all four lanes of their sub-block. Lane l of `offset` is
 * -offset * (sum of the column's q in lane l): an integer dot product that starts with it has the offset
 * subtracted. */
typedef struct ColumnKstep {
    __m512i a, b, offset;
    __m512  scale, sum;
} ColumnKstep;

enum { MAX_KSTEPS = 4 };

/* Loads the n_ksteps k-steps of one row's load. Blocks of 32: n_subs blocks, 1 to 4, then zeros. */
typedef void LoadKsteps(const char *block, int n_subs, Kstep *out);

/* The same for the scales of four rows, whose loads are `at` bytes from their starts. */
typedef void LoadScales(const char *const *row, size_t at, int n_subs, KstepScales *out);

typedef struct QuantLoader {
    LoadKsteps *load;
    LoadScales *scales;
    int         n_ksteps;
    size_t      bytes; /* of one row's load */
    QuantForm   form;  /* form.offset is the offset of the q that `load` gives */
    bool        negative;
} QuantLoader;

/* LEFT_<name>: the offset that `load` leaves in q, or NEGATIVE. */
enum { NEGATIVE = -1 };
#define QUANT_LOADER(ID, name)                                                                                         \
    {                                                                                                                  \
        load_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_LOAD_BYTES(ID),                                             \
            {RP_##ID##_SUB, LEFT_##name < 0 ? 0 : LEFT_##name, RP_##ID##_HAS_MIN, RP_##ID##_TOP}, LEFT_##name < 0      \
    }
#define X(ID, name, sub, offset, ...) enum { LEFT_##name = (offset) };
RP_DIRECT_QUANTS(X)
#undef X

INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

/* One value per sub-block, to all four lanes of the sub-block. */
INLINE __m512 by_sub(__m128 four) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(four));
}

/* The first or second 16 bytes of each 32 bytes of x and y: `a` or `b` of four sub-blocks in memory order. */
INLINE __m512i first_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), y);
}
INLINE __m512i second_halves(__m512i x, __m512i y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), y);
}

/* 16 bytes from each of the first n addresses; zeros after them. */
INLINE __m512i quarters(const char *a, const char *b, const char *c, const char *d, int n) {
    __m512i v = _mm512_zextsi128_si512(load16(a));
    if (n > 1) v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load16(b));
    if (n > 2) v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load16(c));
    if (n > 3) v = _mm512_mask_broadcast_i32x4(v, 0xf000, load16(d));
    return v;
}

/* ---- types in blocks of 32: a k-step is four blocks ---- */

/* 16 bytes of each of n_subs blocks, `stride` bytes apart. */
INLINE __m512i bytes_of_blocks(const char *p, size_t stride, int n_subs) {
    return quarters(p, p + stride, p + 2 * stride, p + 3 * stride, n_subs);
}

/* The scales of a k-step of four rows. They stand at the start of each block: one half float, or two with the
 * minimum (words = 1 or 2). To avoid 16 scalar loads and insertions, row r is loaded with an offset of -words * r
 * words, so that its scales fall into lanes that the other rows leave free. `next` is the length of a block in
 * words; masked lanes are not read. For words = 1, blocks 2h and 2h + 1:
 *
 *     pair[h] word   0      1      2      3      ...  next   next+1 next+2 next+3
 *     scale of       row 0  row 1  row 2  row 3       row 0  row 1  row 2  row 3
 *     block          2h     2h     2h     2h          2h+1   2h+1   2h+1   2h+1
 *
 * One permutation of pair[0] and pair[1] then gives the lane order of KstepScales. */
INLINE void half_scales(const char *const *row, size_t at, size_t block, int words, int n_subs, KstepScales *out) {
    const int each = words == 1 ? 1 : 3, next = (int)block / 2;
    __m512i   pair[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const int some = (n_subs > 2 * h ? each : 0) | (n_subs > 2 * h + 1 ? each << next : 0);
        pair[h]        = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int r = 0; r < 4 && some != 0; r++)
            pair[h] = _mm512_mask_loadu_epi16(pair[h], (__mmask32)some << words * r,
                                              row[r] + at + 2 * (size_t)h * block - 2 * (size_t)(words * r));
    }
#define AT(u, r, k) (short)((u) / 2 * 32 + (u) % 2 * next + words * (r) + (k))
#define ROWS(u, k)  AT(u, 3, k), AT(u, 2, k), AT(u, 1, k), AT(u, 0, k)
#define SUBS(k)     ROWS(3, k), ROWS(2, k), ROWS(1, k), ROWS(0, k)
    const __m512i all = _mm512_permutex2var_epi16(pair[0], _mm512_set_epi16(SUBS(words - 1), SUBS(0)), pair[1]);
#undef SUBS
#undef ROWS
#undef AT
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(all));
    if (words > 1) out->min = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1));
}

/* The first 4 bytes of each block; zeros after n_subs. */
INLINE __m128i words_of_blocks(const char *p, size_t stride, int n_subs) {
    __m128i v = _mm_cvtsi32_si128(word32(p));
    if (n_subs > 1) v = _mm_insert_epi32(v, word32(p + stride), 1);
    if (n_subs > 2) v = _mm_insert_epi32(v, word32(p + 2 * stride), 2);
    if (n_subs > 3) v = _mm_insert_epi32(v, word32(p + 3 * stride), 3);
    return v;
}

/* ---- types in blocks of 256 ---- */

/* 16 bytes of four rows: quarter r is row r. */
INLINE __m512i bytes_of_rows(const char *const *row, size_t at) {
    return quarters(row[0] + at, row[1] + at, row[2] + at, row[3] + at, 4);
}

/* Lane 4u + r = word w of row r, the same for all sub-blocks u. */
INLINE __m512i word_by_sub_and_row(__m512i v, int w) {
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(first, _mm512_set1_epi32(w)), v);
}

INLINE __m512i both(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }

INLINE __m512 both_ps(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }

/* Shift counts: n in each 16-bit word of the lower 32 bytes, m in the upper. */
INLINE __m512i words_twice(int n, int m) {
    return _mm512_inserti64x4(_mm512_set1_epi16((short)n), _mm256_set1_epi16((short)m), 1);
}

/* The half floats at byte `at` of four rows. Lanes 4u + r get the one of row r. Each row is loaded with an offset, so
 * that its half float falls into lane r. */
INLINE __m512 halves_of_rows(const char *const *row, size_t at) {
    __m128i d = _mm_setzero_si128();
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) d = _mm_mask_loadu_epi16(d, (__mmask8)(1 << r), row[r] + at - 2 * (size_t)r);
    return _mm512_broadcast_f32x4(_mm_cvtph_ps(d));
}

/* Shift counts: 8u + n in the lanes of sub-block u, which bring byte u to the lowest, shifted by n bits more. */
INLINE __m512i bytes_down(int n) {
    const __m512i by = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24);
    return _mm512_add_epi32(by, _mm512_set1_epi32(n));
}

/* ---- scales: eight at a time for types in blocks of 256; a block of 32 begins with its scale ---- */

#define ROW_SCALES(ID, name)                                                                                           \
    INLINE void scales_##name(const char *const *row, size_t at, int n_subs, KstepScales *out) {                       \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            half_scales(row, at, RP_##ID##_BYTES, 1, n_subs, out);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        for (int part = 0; part < RP_##ID##_ELEMS / RP_##ID##_SUB / 8; part++) {                                       \
            __m256 scale[4], min[4], pair[4];                                                                          \
            for (int r = 0; r < 4; r++)                                                                                \
                scale[r] = sub_scales_##name##_avx2((const Block##ID *)(const void *)(row[r] + at), part, &min[r]);    \
            pairs_of_rows(scale, pair);                                                                                \
            for (int k = 0; k < 2; k++) out[2 * part + k].scale = both_ps(pair[2 * k], pair[2 * k + 1]);               \
            if (!RP_##ID##_HAS_MIN) continue;                                                                          \
            pairs_of_rows(min, pair);                                                                                  \
            for (int k = 0; k < 2; k++) out[2 * part + k].min = both_ps(pair[2 * k], pair[2 * k + 1]);                 \
        }                                                                                                              \
    }

/* ---- types with a codebook ---- */

/* Entries of 8 elements at four times two places, and of 4 elements at four times four places. */
#define TWO8(name, codebook, e) codebook[at_##name(b, at, e)], codebook[at_##name(b, at, (e) + 1)]
#define TAKE8(name, codebook, first, step)                                                                             \
    both(take_four_words((const uint64_t[]){TWO8(name, codebook, first), TWO8(name, codebook, (first) + (step))}),     \
         take_four_words((const uint64_t[]){TWO8(name, codebook, (first) + 2 * (step)),                                \
                                            TWO8(name, codebook, (first) + 3 * (step))}))
INLINE __m256i take_four_words(const uint64_t *v) {
    return _mm256_setr_epi64x((int64_t)v[0], (int64_t)v[1], (int64_t)v[2], (int64_t)v[3]);
}

#define FOUR4(name, e)                                                                                                 \
    at_##name(b, at, e), at_##name(b, at, (e) + 1), at_##name(b, at, (e) + 2), at_##name(b, at, (e) + 3)
#define TAKE4(name, first)                                                                                             \
    both(rp_take_eight_avx2(rp_codebook_##name, (int[]){FOUR4(name, first), FOUR4(name, (first) + 8)}),                \
         rp_take_eight_avx2(rp_codebook_##name, (int[]){FOUR4(name, (first) + 16), FOUR4(name, (first) + 24)}))

/* The signs of both k-steps, as masks of a and of b: of each 32, the first and the second 16. */
INLINE void put_masks(__m256i signs, Kstep *s) {
    uint64_t      masks[4];
    const __m256i of = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    _mm256_storeu_si256((void *)masks, _mm256_shuffle_epi8(signs, of));
    for (int j = 0; j < 2; j++) s[j].negative_a = masks[2 * j], s[j].negative_b = masks[2 * j + 1];
}

/* ---- the types ---- */

#define RP_LOADS_GEMV_AVX512
#include "fallback/quants/types.h"
#undef RP_LOADS_GEMV_AVX512
#undef TAKE8
#undef TWO8
#undef TAKE4
#undef FOUR4

/* ---- columns ---- */

/* The first n bytes at p; zeros after them. Bytes after n are not read. */
INLINE __m512i first_bytes(const void *p, int n) {
    return n >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(n > 0 ? ~(uint64_t)0 >> (64 - n) : 0, p);
}

/* The k-step from element i on: n_subs sub-blocks of 32 (zeros after them), or four of 16. */
INLINE ColumnKstep column_kstep(const QuantForm *form, const DotColumn *x, int64_t i, int n_subs) {
    ColumnKstep   s;
    const int8_t *q = x->q + i;
    if (form->sub_elems == 16) {
        const __m128 pair = _mm_castsi128_ps(_mm_loadl_epi64((const void *)(x->scale + i / 32)));
        s.a               = _mm512_loadu_si512(q);
        s.b               = _mm512_setzero_si512();
        s.scale           = by_sub(_mm_unpacklo_ps(pair, pair));
        if (form->has_min) s.sum = by_sub(_mm_loadu_ps(x->sum + i / RP_SUM_BLOCK));
    } else {
        const __m512i  first = first_bytes(q, 32 * n_subs), second = first_bytes(q + 64, 32 * n_subs - 64);
        const __mmask8 some = (__mmask8)((1 << n_subs) - 1), twice = (__mmask8)((1 << 2 * n_subs) - 1);
        const __m128   scale =
            n_subs == 4 ? _mm_loadu_ps(x->scale + i / 32) : _mm_maskz_loadu_ps(some, x->scale + i / 32);
        s.a     = first_halves(first, second);
        s.b     = second_halves(first, second);
        s.scale = by_sub(scale);
        if (form->has_min) {
            const __m256 sums = n_subs == 4 ? _mm256_loadu_ps(x->sum + i / RP_SUM_BLOCK)
                                            : _mm256_maskz_loadu_ps(twice, x->sum + i / RP_SUM_BLOCK);
            const __m128 low = _mm256_castps256_ps128(sums), high = _mm256_extractf128_ps(sums, 1);
            const __m128 sum = _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd));
            s.sum            = by_sub(sum);
        }
    }
    s.offset = _mm512_setzero_si512();
    if (!form->has_min) s.sum = _mm512_setzero_ps();
    if (form->offset > 0) {
        const __m512i every = _mm512_set1_epi8((char)form->offset);
        s.offset            = _mm512_dpbusd_epi32(s.offset, every, s.a);
        if (form->sub_elems == 32) s.offset = _mm512_dpbusd_epi32(s.offset, every, s.b);
        s.offset = _mm512_sub_epi32(_mm512_setzero_si512(), s.offset);
    }
    return s;
}

/* The dot product of a row's k-step and the column's, four (eight) products in each lane, offset subtracted. */
INLINE __m512i lane_dots(const QuantLoader *t, const Kstep *s, const ColumnKstep *x) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i xa   = t->negative ? _mm512_mask_sub_epi8(x->a, s->negative_a, zero, x->a) : x->a;
    __m512i       dot  = _mm512_dpbusd_epi32(x->offset, s->a, xa);
    if (t->form.sub_elems == 16) return dot;
    const __m512i xb = t->negative ? _mm512_mask_sub_epi8(x->b, s->negative_b, zero, x->b) : x->b;
    return _mm512_dpbusd_epi32(dot, s->b, xb);
}
#endif
#endif
