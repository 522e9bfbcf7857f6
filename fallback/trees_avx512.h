/* trees_avx512.h - reduction of 16 float lanes to one sum, in the fixed order of all variants (I8): the upper half is
 * added to the lower half until one lane is left.
 *
 *     16 lanes:  s[l] + s[l+8]   then  + s[l+4]   then  + s[l+2]   then  + s[l+1]   result in s[0] */
#ifndef FALLBACK_TREES_AVX512_H
#define FALLBACK_TREES_AVX512_H

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>

#define INLINE RP_TARGET_AVX512 RP_BODY

/* The last two levels, in each quarter: lane 0 = (s[0] + s[2]) + (s[1] + s[3]). */
INLINE __m512 reduce_quarters(__m512 four) {
    const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
    return _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
}

/* Reduces four registers at once: quarter i starts with the sum of v[i]. The first level leaves 8 lanes of two
 * registers in one, the second 4 lanes of four registers. */
INLINE __m512 reduce_4x16(const __m512 *v) {
    const __m512 e01 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 e23 =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    return reduce_quarters(
        _mm512_add_ps(_mm512_shuffle_f32x4(e01, e23, 0x88), _mm512_shuffle_f32x4(e01, e23, 0xdd)));
}

/* The first lane of each quarter. */
INLINE __m128 quarter_heads(__m512 v) {
    const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, v));
}
#endif
#endif
