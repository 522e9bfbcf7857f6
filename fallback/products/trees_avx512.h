/* trees_avx512.h - reduction of 16 float lanes to one sum, in the fixed order of all variants (I8): the upper half is
 * added to the lower half until one lane is left.
 *
 *     16 lanes:  s[l] + s[l+8]   then  + s[l+4]   then  + s[l+2]   then  + s[l+1]   result in s[0] */
#ifndef FALLBACK_PRODUCTS_TREES_AVX512_H
#define FALLBACK_PRODUCTS_TREES_AVX512_H

#include "fallback/simd/simd.h"

#ifdef RP_X86
#include <immintrin.h>

#define INLINE RP_TARGET_AVX512 RP_BODY

INLINE __m512 sum_or_max(bool max, __m512 a, __m512 b) { return max ? _mm512_max_ps(a, b) : _mm512_add_ps(a, b); }

/* Four registers at once: quarter i starts with the sum, or the largest lane, of v[i]. The first level leaves 8 lanes
 * of two registers in one, the second 4 lanes of four registers; the last two stay within quarters. */
INLINE __m512 reduce_by(bool max, const __m512 *v) {
    const __m512 e01  = sum_or_max(max, _mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 e23  = sum_or_max(max, _mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    const __m512 four = sum_or_max(max, _mm512_shuffle_f32x4(e01, e23, 0x88), _mm512_shuffle_f32x4(e01, e23, 0xdd));
    const __m512 two  = sum_or_max(max, four, _mm512_permute_ps(four, 0x4e));
    return sum_or_max(max, two, _mm512_permute_ps(two, 0xb1));
}
INLINE __m512 reduce_4x16(const __m512 *v) { return reduce_by(false, v); }
INLINE __m512 max_4x16(const __m512 *v) { return reduce_by(true, v); }

/* The first lane of each quarter. */
INLINE __m128 quarter_heads(__m512 v) {
    const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, v));
}
#endif
#endif
