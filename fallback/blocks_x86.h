/* blocks_x86.h - what AVX2 and AVX-512 take from blocks alike: scales and minima, in 128 bits. */
#ifndef FALLBACK_BLOCKS_X86_H
#define FALLBACK_BLOCKS_X86_H

#include "fallback/dot.h"
#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>
#include <string.h>

#define INLINE_AVX2 RP_TARGET_AVX2 static inline __attribute__((always_inline))

/* Weight types: block, spans that a load takes, and what QuantForm has. */
#define SPAN_TYPES(X)                                                                                        \
    X(Q4_0, q4_0, BlockQ4_0, 1, 32, 8, false)                                                                \
    X(Q4_1, q4_1, BlockQ4_1, 1, 32, 0, true)                                                                 \
    X(Q5_0, q5_0, BlockQ5_0, 1, 32, 16, false)                                                               \
    X(Q5_1, q5_1, BlockQ5_1, 1, 32, 0, true)                                                                 \
    X(Q8_0, q8_0, BlockQ8_0, 1, 32, 128, false)                                                              \
    X(MXFP4, mxfp4, BlockMXFP4, 1, 32, 12, false)                                                            \
    X(Q4_K, q4_k, BlockQ4_K, 2, 32, 0, true)                                                                 \
    X(Q5_K, q5_k, BlockQ5_K, 2, 32, 0, true)                                                                 \
    X(Q6_K, q6_k, BlockQ6_K, 4, 16, 32, false)

/* Bytes between what is multiplied and what is asked of memory: the processor's own prefetching stops at the end
 * of a page of 4 KB, and starts late on several rows. Asking for what is past the last row is harmless. */
enum { AHEAD = 4096, CACHE_LINE = 64 };

INLINE_AVX2 void prefetch(const char *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += CACHE_LINE) _mm_prefetch(p + k, _MM_HINT_T0);
}

/* Of rows that are taken four at a time: whole groups of rows, so that each byte is asked for once, in time. */
INLINE_AVX2 size_t rows_ahead(size_t stride) {
    const size_t group = 4 * stride;
    return group > 0 ? (AHEAD + group - 1) / group * group : AHEAD;
}

INLINE_AVX2 void prefetch_ahead(const char *p, size_t bytes) { prefetch(p + AHEAD, bytes); }

INLINE_AVX2 __m128i load16(const void *p) { return _mm_loadu_si128(p); }
INLINE_AVX2 __m256i load32(const void *p) { return _mm256_loadu_si256(p); }

INLINE_AVX2 int word16(const char *p) {
    uint16_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

INLINE_AVX2 int word32(const char *p) {
    int w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* The first 4 bytes of each block. */
INLINE_AVX2 __m128i words_of_blocks(const char *p, size_t stride, int units) {
    __m128i v = _mm_cvtsi32_si128(word32(p));
    if (units > 1) v = _mm_insert_epi32(v, word32(p + stride), 1);
    if (units > 2) v = _mm_insert_epi32(v, word32(p + 2 * stride), 2);
    if (units > 3) v = _mm_insert_epi32(v, word32(p + 3 * stride), 3);
    return v;
}

/* Types with a scale only. */
INLINE_AVX2 __m256 scales_of_blocks(const char *p, size_t stride, int units) {
    __m128i v = _mm_cvtsi32_si128(word16(p));
    if (units > 1) v = _mm_insert_epi16(v, word16(p + stride), 1);
    if (units > 2) v = _mm_insert_epi16(v, word16(p + 2 * stride), 2);
    if (units > 3) v = _mm_insert_epi16(v, word16(p + 3 * stride), 3);
    return _mm256_zextps128_ps256(_mm_cvtph_ps(v));
}

/* From words of a scale and a minimum. */
INLINE_AVX2 __m256 scales_and_minima(__m128i words) {
    return _mm256_cvtph_ps(
        _mm_shuffle_epi8(words, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
}

/* 2^(e - 128), as in unpack.c: the larger of two words, of which the first is that of e >= 2. */
INLINE_AVX2 __m128 mxfp4_scales(__m128i e) {
    const __m128i one    = _mm_set1_epi32(1);
    const __m128i normal = _mm_slli_epi32(_mm_sub_epi32(e, one), 23);
    const __m128i small  = _mm_sllv_epi32(_mm_set1_epi32(0x00200000), _mm_min_epi32(e, one));
    return _mm_castsi128_ps(_mm_max_epi32(normal, small));
}

/* The first 16 bytes of a block of 256: d, dmin and three words w of 6-bit fields, which unpack.c describes. Here
 * they become four words of bytes: the first four scales and minima, then the other four. */
INLINE_AVX2 __m128i scale_bytes_k(__m128i block) {
    const __m128i lower =
        _mm_and_si128(_mm_srlv_epi32(_mm_shuffle_epi32(block, 0xf9), _mm_setr_epi32(0, 0, 0, 4)),
                      _mm_setr_epi32(0x3f3f3f3f, 0x3f3f3f3f, 0x0f0f0f0f, 0x0f0f0f0f));
    const __m128i upper = _mm_and_si128(_mm_srli_epi32(_mm_shuffle_epi32(block, 0x90), 2),
                                        _mm_setr_epi32(0, 0, 0x30303030, 0x30303030));
    return _mm_or_si128(lower, upper);
}

/* d and -dmin. */
INLINE_AVX2 __m128 scale_min_k(__m128i block) {
    return _mm_mul_ps(_mm_cvtph_ps(block), _mm_setr_ps(1.0f, -1.0f, 0.0f, 0.0f));
}
#endif
#endif
