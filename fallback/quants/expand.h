/* expand.h - what the files in fallback/quants/types build on. Such a file has all that the CPU kernels know of a type:
 *
 *     Block<ID>                       the block of the file
 *     quantize_<name>(x, w, b)        types of RP_QUANTS; w is the importance of each element (fit.h)
 *
 * and of RP_EXPANDED_QUANTS, from which expand_avx2.h, expand_avx512.h, expand_neon.h and expand_panel_x86.h in
 * fallback/products make GEMV and packing for each instruction set, and dequantize.c makes dequantisation:
 *
 *     expand_<name>(b, i, v)          v[32] = q - offset of elements 32i to 32i + 31 of block b
 *     expand_<name>_avx2(b, i)        the same as a vector; types with a codebook have elements_<name>_avx2
 *     expand_<name>_neon(b, i, v)     the same as two vectors
 *     sub_scales_<name>(b, scale, min)   of each sub-block; only types with minima write min
 *     sub_scales_<name>_avx2(b, part, min)   of sub-blocks 8 * part to 8 * part + 7
 *
 * Types in blocks of 256 whose elements have at most 16 values have RP_FEW_VALUES, which makes sub_scales_<name> from
 *
 *     factors_<name>(b, s)            s[] = the integer factors of the scales of all sub-blocks; returns d, an f16
 *
 * Types with a codebook also have, for AVX2 and AVX-512,
 *
 *     entries_<name>_avx2(b, at)      the signs of a block, a bit each; IQ1: a byte for each entry, 255 for an offset
 *                                     of -1/8. Writes at[], the places of entries, if at_<name> uses it
 *     at_<name>(b, at, e)             the place of entry e in the codebook
 *     elements_<name>_avx2(b, at, entries, i)   the vector of expand_<name>; `entries` is that of entries_<name>_avx2
 *
 * Those, and all but the types of RP_GENERIC_QUANTS, have their own loads for GEMV on x86: the parts
 * RP_LOADS_GEMV_AVX2, with sums_<name> in the place of load_<name>, and RP_LOADS_GEMV_AVX512 below.
 *
 * Types of RP_DIRECT_QUANTS load several blocks or rows at once, which takes fewer instructions. They have instead:
 *
 *     <name>_block(b, q, scale, min)  q of a block, offset included; scale and minimum of each 16 elements
 *     parts of the file               the loads below, included by the header that says what each function gives
 *
 *     #ifdef RP_LOADS_GEMV_AVX2       load, header, scales_<name>       fallback/products/gemv_load_avx2.h
 *     #ifdef RP_LOADS_PANEL_AVX2      begin, step, quad_<name>          fallback/products/blocks_avx2.h
 *     #ifdef RP_LOADS_GEMV_AVX512     load, scales_<name>               fallback/products/gemv_load_avx512.h
 *     #ifdef RP_LOADS_PANEL_AVX512    begin, step, quad_<name>          fallback/products/blocks_avx512.h
 *     #ifdef RP_LOADS_NEON            LEFT, STRIDED, quarter, scales_<name>   fallback/products/gemv_load_neon.h */
#ifndef FALLBACK_QUANTS_EXPAND_H
#define FALLBACK_QUANTS_EXPAND_H

#include "base/dtypes.h"
#include "fallback/simd/float.h"
#include "fallback/simd/simd.h"

#include <stdint.h>
#include <string.h>

#ifdef RP_X86
#include <immintrin.h>

/* sub_scales_<name>_avx2 of types in blocks of 256 without minima: `factor` times d, an f16, times integers. */
RP_TARGET_AVX2 RP_BODY __m256 rp_times_f16_avx2(uint16_t d, float factor, __m256i v) {
    const __m256 all = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(d)));
    return _mm256_mul_ps(_mm256_mul_ps(all, _mm256_set1_ps(factor)), _mm256_cvtepi32_ps(v));
}

/* The odd integers 2 * v + 1. */
RP_TARGET_AVX2 RP_BODY __m256i rp_odd_avx2(__m256i v) {
    return _mm256_add_epi32(_mm256_add_epi32(v, v), _mm256_set1_epi32(1));
}

/* The eight nibbles of a word. */
RP_TARGET_AVX2 RP_BODY __m256i rp_eight_nibbles_avx2(uint32_t word) {
    const __m256i v = _mm256_srlv_epi32(_mm256_set1_epi32((int)word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return _mm256_and_si256(v, _mm256_set1_epi32(15));
}

/* 16 bytes: the low nibbles, then the high ones. */
RP_TARGET_AVX2 RP_BODY __m256i rp_nibbles_avx2(const uint8_t *p) {
    const __m128i v = _mm_loadu_si128((const void *)p);
    return _mm256_and_si256(_mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1),
                            _mm256_set1_epi8(15));
}

/* 16 values by index. */
RP_TARGET_AVX2 RP_BODY __m256i rp_lookup_avx2(const int8_t *values, __m256i at) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)values)), at);
}

/* The four bytes of a word, each 8 times. */
RP_TARGET_AVX2 RP_BODY __m256i rp_bytes_8_times_avx2(uint32_t word) {
    const __m256i of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), of);
}

/* Bit i as the byte i: 0 or 255. */
RP_TARGET_AVX2 RP_BODY __m256i rp_byte_mask_avx2(uint32_t bits) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i v   = rp_bytes_8_times_avx2(bits);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

/* The elements whose bit is set, negated. */
RP_TARGET_AVX2 RP_BODY __m256i rp_negate_avx2(__m256i v, uint32_t bits) {
    const __m256i mask = rp_byte_mask_avx2(bits);
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}
#endif

#ifdef __aarch64__
#include <arm_neon.h>

/* expand_<name>_neon from expand_<name>, which the compiler vectorises. */
#define RP_EXPAND_NEON(ID, name)                                                                                       \
    RP_BODY void expand_##name##_neon(const Block##ID *b, int i, int8x16_t *v) {                                       \
        int8_t all[32];                                                                                                \
        expand_##name(b, i, all);                                                                                      \
        v[0] = vld1q_s8(all);                                                                                          \
        v[1] = vld1q_s8(all + 16);                                                                                     \
    }
#else
#define RP_EXPAND_NEON(ID, name)
#endif

/* Elements of the type are one of at most 16 values. Value v has the index (v + above) >> shift in the list that
 * follows, where 0 fills gaps, but in IQ4_XS, whose file has indices. The scale of sub-block u is unit * d * s[u], with
 * the d and s[] of factors_<name>. `unit` is a power of two. */
#define RP_FEW_VALUES(ID, name, unit, above, shift, ...)                                                               \
    static const float unit_##name = unit;                                                                             \
    enum { ABOVE_##name = above, SHIFT_##name = shift };                                                               \
    static const int8_t values_##name[16] = {__VA_ARGS__};                                                             \
    RP_BODY void        sub_scales_##name(const Block##ID *b, float *scale, float *min) {                              \
               int8_t      s[RP_##ID##_ELEMS / RP_##ID##_SUB];                                                         \
               const float d = rp_f16_to_f32(factors_##name(b, s)) * unit_##name;                                      \
               (void)min;                                                                                              \
               for (size_t u = 0; u < sizeof s; u++) scale[u] = d * (float)s[u];                                       \
    }

/* v[k] = value of the low nibble of qs[k], v[16 + k] of the high one. */
RP_BODY void rp_lookup_nibbles(const uint8_t *qs, const int8_t *values, int8_t *v) {
    for (int k = 0; k < 16; k++) {
        v[k]      = values[qs[k] & 15];
        v[k + 16] = values[qs[k] >> 4];
    }
}

/* n bytes: low nibbles to q[0..n), high nibbles to q[n..2n). */
RP_BODY void rp_nibbles(const uint8_t *qs, int n, uint8_t *q) {
    for (int i = 0; i < n; i++) {
        q[i]     = qs[i] & 15;
        q[i + n] = qs[i] >> 4;
    }
}

/* A sub-block of 32 has two sum blocks, so its scale and minimum are stored twice. */
RP_BODY void rp_both_sum_blocks(float *scale, float *min, float d, float m) {
    scale[0] = scale[1] = d;
    min[0] = min[1] = m;
}

RP_BODY uint32_t rp_word_at(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The elements whose bit is set, negated. */
RP_BODY void rp_negate(int8_t *v, uint32_t bits) {
    for (int k = 0; k < 32; k++) v[k] = (int8_t)((bits >> k & 1) != 0 ? -v[k] : v[k]);
}

/* Entries of 8 values, one byte each; of 4 for IQ3; of 8 times the value for IQ1. */
extern const uint64_t rp_codebook_iq1[2048], rp_codebook_iq2_s[1024], rp_codebook_iq2_xs[512], rp_codebook_iq2_xxs[256];
extern const uint32_t rp_codebook_iq3_s[512], rp_codebook_iq3_xxs[256];

/* Four entries of 8 values. */
RP_BODY void rp_take_four(const uint64_t *codebook, const int at[4], int8_t *v) {
    for (int k = 0; k < 4; k++) memcpy(v + 8 * k, codebook + at[k], 8);
}

/* The signs of 8 elements from 7 bits: the number of negative ones is even. */
RP_BODY uint32_t rp_even_signs(uint32_t seven) {
    const uint32_t folded = seven ^ seven >> 4; /* bit n of 0x6996 is the parity of n */
    return seven | (0x6996u >> (folded & 15) & 1) << 7;
}

/* The same for four times 7 bits of a word. */
RP_BODY uint32_t rp_even_signs_of_32(uint32_t word) {
    uint32_t signs = 0;
    for (int k = 0; k < 4; k++) signs |= rp_even_signs(word >> (7 * k) & 127) << (8 * k);
    return signs;
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i rp_take_four_avx2(const uint64_t *codebook, const int at[4]) {
    return _mm256_setr_epi64x((int64_t)codebook[at[0]], (int64_t)codebook[at[1]], (int64_t)codebook[at[2]],
                              (int64_t)codebook[at[3]]);
}

/* rp_even_signs of each byte. */
RP_TARGET_AVX2 RP_BODY __m256i rp_even_signs_avx2(__m256i seven) {
    const __m256i parity = _mm256_broadcastsi128_si256(/* of a nibble, as bit 7 */
                                                       _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0,
                                                                     -128, 0, -128, -128, 0));
    const __m256i low    = _mm256_and_si256(seven, _mm256_set1_epi8(15));
    const __m256i high   = _mm256_and_si256(_mm256_srli_epi16(seven, 4), _mm256_set1_epi8(15));
    const __m256i odd    = _mm256_xor_si256(_mm256_shuffle_epi8(parity, low), _mm256_shuffle_epi8(parity, high));
    return _mm256_or_si256(seven, odd);
}

/* rp_even_signs_of_32 of each word. */
RP_TARGET_AVX2 RP_BODY __m256i rp_even_signs_of_words_avx2(__m256i v) {
    /* 14 bits to each 16, then 7 bits to each 8 */
    v = _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(0x3fff)),
                        _mm256_and_si256(_mm256_slli_epi32(v, 2), _mm256_set1_epi32(0x3fff0000)));
    v = _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi16(0x7f)),
                        _mm256_and_si256(_mm256_slli_epi16(v, 1), _mm256_set1_epi16(0x7f00)));
    return rp_even_signs_avx2(v);
}

/* at[0..15] = v. Compilers would take words that are used from the vector, with two instructions each, if they knew
 * that memory has the same words. */
RP_TARGET_AVX2 RP_BODY void rp_put_words_avx2(__m256i v, uint16_t *at) {
    _mm256_storeu_si256((void *)at, v);
    __asm__("" : "+m"(*(uint16_t(*)[16])at));
}

/* at[0..15] = low[0..15] | high, where `high` has higher bits in words of 16 bits. */
RP_TARGET_AVX2 RP_BODY void rp_put_places_avx2(const uint8_t *low, __m256i high, uint16_t *at) {
    const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)low));
    rp_put_words_avx2(_mm256_or_si256(v, high), at);
}

RP_TARGET_AVX2 RP_BODY __m256i rp_take_eight_avx2(const uint32_t *codebook, const int at[8]) {
    return _mm256_setr_epi32((int)codebook[at[0]], (int)codebook[at[1]], (int)codebook[at[2]], (int)codebook[at[3]],
                             (int)codebook[at[4]], (int)codebook[at[5]], (int)codebook[at[6]], (int)codebook[at[7]]);
}
#endif

#endif
