/* blocks_x86.h - small loads that the AVX2 and AVX-512 kernels share.
 *
 * Rows end on a whole block, so the last load (RP_LOAD_BLOCKS) of a row of blocks of 32 may have only 1 to 3 of
 * them. */
#ifndef FALLBACK_PRODUCTS_BLOCKS_X86_H
#define FALLBACK_PRODUCTS_BLOCKS_X86_H

#include "fallback/products/dot.h"
#include "fallback/simd/prefetch.h"
#include "fallback/simd/simd.h"

#ifdef RP_X86
#include <immintrin.h>
#include <string.h>

#define INLINE_AVX2 RP_TARGET_AVX2 static inline __attribute__((always_inline))

INLINE_AVX2 __m128i load16(const void *p) { return _mm_loadu_si128(p); }
INLINE_AVX2 __m256i load32(const void *p) { return _mm256_loadu_si256(p); }

/* Unaligned words, extended to int. */
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

/* sum + v in 16-bit or 32-bit lanes, in the register of sum. Written out, since gcc 12 reassociates a chain of
 * additions into a tree, whose values do not fit in 16 registers, or copies each sum to another register. */
INLINE_AVX2 __m256i add16(__m256i sum, __m256i v) {
    __asm__("vpaddw %1, %0, %0" : "+x"(sum) : "x"(v));
    return sum;
}

INLINE_AVX2 __m256i add32(__m256i sum, __m256i v) {
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(v));
    return sum;
}

/* Stores accumulators of a tile at once. gcc would carry them to their next use in registers, spill these, and store
 * each sum twice. */
INLINE_AVX2 void stored(float (*acc)[RP_PANEL_ROWS]) {
    __asm__("" : "+m"(*(float(*)[RP_GROUP_COLS][RP_PANEL_ROWS])acc));
}

/* Values of sub-blocks 0 to 7 of four rows: pair[h] has sub-blocks 2h, of rows 0 to 3, and 2h + 1. */
INLINE_AVX2 void pairs_of_rows(const __m256 v[4], __m256 pair[4]) {
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(v[0], v[1])),
                  b = _mm256_castps_pd(_mm256_unpacklo_ps(v[2], v[3]));
    const __m256d c = _mm256_castps_pd(_mm256_unpackhi_ps(v[0], v[1])),
                  d = _mm256_castps_pd(_mm256_unpackhi_ps(v[2], v[3]));
    /* sub-blocks 0 and 4, 1 and 5, 2 and 6, 3 and 7 */
    const __m256 s04 = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), s15 = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    const __m256 s26 = _mm256_castpd_ps(_mm256_unpacklo_pd(c, d)), s37 = _mm256_castpd_ps(_mm256_unpackhi_pd(c, d));
    pair[0] = _mm256_permute2f128_ps(s04, s15, 0x20);
    pair[1] = _mm256_permute2f128_ps(s26, s37, 0x20);
    pair[2] = _mm256_permute2f128_ps(s04, s15, 0x31);
    pair[3] = _mm256_permute2f128_ps(s26, s37, 0x31);
}
#endif
#endif
