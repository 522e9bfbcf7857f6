/* trees_avx512.h - 16 lanes added up: the upper half to the lower until one is left. */
#ifndef FALLBACK_TREES_AVX512_H
#define FALLBACK_TREES_AVX512_H

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>

#define INLINE RP_TARGET_AVX512 RP_BODY

INLINE __m512 halve_lanes(__m512 four) {
    const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
    return _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
}

/* The trees of four times 16 lanes, one at the start of each quarter. */
INLINE __m512 four_trees(const __m512 *v) {
    const __m512 e01 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 e23 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    return halve_lanes(
        _mm512_add_ps(_mm512_shuffle_f32x4(e01, e23, 0x88), _mm512_shuffle_f32x4(e01, e23, 0xdd)));
}

INLINE __m128 starts_of_quarters(__m512 v) {
    const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, v));
}
#endif
#endif
