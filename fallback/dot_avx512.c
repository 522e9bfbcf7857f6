#include "fallback/dot.h"

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>

typedef struct Lanes {
    __m512 acc;
    __m128 low;
} Lanes;

/* The span from element i: 64 elements, or 32 with `tail`, the upper lanes then being left alone. */
RP_TARGET_AVX512 static inline __attribute__((always_inline)) void span(const uint8_t *q, const float *scale,
                                                                        const float *min, int64_t i,
                                                                        bool tail, const DotColumn *cols,
                                                                        int n_cols, Lanes *s) {
    const __m512i   by_group = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i   by_block = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __mmask64 bytes    = tail ? 0xffffffffu : ~0ull;
    const __mmask16 lanes    = tail ? 0xff : 0xffff;
    const __mmask8  groups = tail ? 3 : 15, blocks = tail ? 1 : 3;
    const __m512i   w      = _mm512_maskz_loadu_epi8(bytes, q + i);
    const __m128    scale4 = _mm_maskz_loadu_ps(groups, scale + i / RP_GROUP);
    const __m128    min4   = _mm_maskz_loadu_ps(groups, min + i / RP_GROUP);
    const __m512    d      = _mm512_permutexvar_ps(by_group, _mm512_castps128_ps512(scale4));
    for (int c = 0; c < n_cols; c++) {
        const __m512i x   = _mm512_maskz_loadu_epi8(bytes, cols[c].q + i);
        const __m128  x2  = _mm_maskz_loadu_ps(blocks, cols[c].scale + i / 32);
        const __m512  dx  = _mm512_permutexvar_ps(by_block, _mm512_castps128_ps512(x2));
        const __m512  dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x));
        const __m128  sum = _mm_maskz_loadu_ps(groups, cols[c].sum + i / RP_GROUP);
        s[c].acc          = _mm512_mask3_fmadd_ps(_mm512_mul_ps(d, dx), dot, s[c].acc, lanes);
        s[c].low          = _mm_mask3_fmadd_ps(min4, sum, s[c].low, groups);
    }
}

RP_TARGET_AVX512 static inline __attribute__((always_inline)) void row(const uint8_t *q, const float *scale,
                                                                       const float *min, int64_t n,
                                                                       const DotColumn *cols, int n_cols,
                                                                       DotSums *sums) {
    Lanes   s[RP_DOT_COLS];
    int64_t i = 0;
    for (int c = 0; c < n_cols; c++) s[c] = (Lanes){_mm512_loadu_ps(sums[c].acc), _mm_loadu_ps(sums[c].low)};
    for (; i + RP_SPAN <= n; i += RP_SPAN) span(q, scale, min, i, false, cols, n_cols, s);
    if (i < n) span(q, scale, min, i, true, cols, n_cols, s);
    for (int c = 0; c < n_cols; c++) {
        _mm512_storeu_ps(sums[c].acc, s[c].acc);
        _mm_storeu_ps(sums[c].low, s[c].low);
    }
}

RP_TARGET_AVX512 void rp_dot_avx512(const uint8_t *q, const float *scale, const float *min, int64_t n,
                                    const DotColumn *cols, int n_cols, DotSums *sums) {
    switch (n_cols) { /* so that the loops over columns unroll */
    case 1:
        row(q, scale, min, n, cols, 1, sums);
        break;
    case 2:
        row(q, scale, min, n, cols, 2, sums);
        break;
    case 3:
        row(q, scale, min, n, cols, 3, sums);
        break;
    default:
        row(q, scale, min, n, cols, 4, sums);
        break;
    }
}
#endif
