#include "fallback/dot.h"

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>

/* Integer dot products of four and four elements of 32: the products of unsigned and signed bytes are added
 * in pairs to 16 bits, which saturate past 32767; so the upper bit of the weights is taken apart. */
RP_TARGET_AVX2 static inline __attribute__((always_inline)) __m256i dot4(__m256i w, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8((char)0x80);
    const __m256i low  = _mm256_maddubs_epi16(_mm256_andnot_si256(top, w), x);
    const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(top, w), x);
    return _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));
}

RP_TARGET_AVX2 void rp_dot_avx2(const uint8_t *q, const float *scale, const float *min, int64_t n,
                                const DotColumn *cols, int n_cols, DotSums *sums) {
    const __m256i by_group = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    for (int c = 0; c < n_cols; c++) {
        const DotColumn *x      = &cols[c];
        __m256           acc[2] = {_mm256_loadu_ps(sums[c].acc), _mm256_loadu_ps(sums[c].acc + 8)};
        __m128           low    = _mm_loadu_ps(sums[c].low);
        for (int64_t i = 0; i < n; i += 32) {
            const __m128i pair = _mm_loadl_epi64((const __m128i *)(const void *)(scale + i / RP_GROUP));
            const __m256  d =
                _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_castsi128_ps(pair)), by_group);
            const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(q + i));
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x->q + i));
            const int     h = (int)(i % RP_SPAN) / 32;
            acc[h]          = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->scale[i / 32])),
                                              _mm256_cvtepi32_ps(dot4(w, v)), acc[h]);
        }
        const int64_t groups = n / RP_GROUP, whole = groups / RP_SPAN_GROUPS * RP_SPAN_GROUPS;
        for (int64_t g = 0; g < whole; g += RP_SPAN_GROUPS)
            low = _mm_fmadd_ps(_mm_loadu_ps(min + g), _mm_loadu_ps(x->sum + g), low);
        _mm256_storeu_ps(sums[c].acc, acc[0]);
        _mm256_storeu_ps(sums[c].acc + 8, acc[1]);
        _mm_storeu_ps(sums[c].low, low);
        for (int64_t g = whole; g < groups; g++)
            sums[c].low[g - whole] = __builtin_fmaf(min[g], x->sum[g], sums[c].low[g - whole]);
    }
}

RP_TARGET_AVX2 static inline __attribute__((always_inline)) float tree4(__m128 v) {
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}

RP_TARGET_AVX2 void rp_dot_results_avx2(const DotSums *sums, int n_cols, float *y) {
    for (int c = 0; c < n_cols; c++) {
        const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(sums[c].acc), _mm256_loadu_ps(sums[c].acc + 8));
        const __m128 four  = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        y[c]               = tree4(four) + tree4(_mm_loadu_ps(sums[c].low));
    }
}
#endif
