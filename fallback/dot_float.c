#include "fallback/dot.h"

#include "fallback/simd.h"

#include <math.h>

#ifdef RP_X86
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static void rest(const float *w, const float *const *x, int64_t i, int64_t n, int n_cols,
                 float (*acc)[RP_LANES]) {
    for (int c = 0; c < n_cols; c++)
        for (int l = 0; i + l < n; l++) acc[c][l] = fmaf(w[i + l], x[c][i + l], acc[c][l]);
}

static void dot_plain(const float *w, const float *const *x, int64_t n, int n_cols, float (*acc)[RP_LANES]) {
    int64_t i = 0;
    for (; i + RP_LANES <= n; i += RP_LANES) rest(w, x, i, i + RP_LANES, n_cols, acc);
    rest(w, x, i, n, n_cols, acc);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY void cols_avx2(const float *w, const float *const *x, int64_t n, int n_cols,
                                      float (*acc)[RP_LANES]) {
    __m256 low[RP_DOT_COLS], high[RP_DOT_COLS];
    for (int c = 0; c < n_cols; c++) low[c] = _mm256_loadu_ps(acc[c]), high[c] = _mm256_loadu_ps(acc[c] + 8);
    for (int64_t i = 0; i < n; i += RP_LANES) {
        const __m256 w_low = _mm256_loadu_ps(w + i), w_high = _mm256_loadu_ps(w + i + 8);
        for (int c = 0; c < n_cols; c++) {
            low[c]  = _mm256_fmadd_ps(w_low, _mm256_loadu_ps(x[c] + i), low[c]);
            high[c] = _mm256_fmadd_ps(w_high, _mm256_loadu_ps(x[c] + i + 8), high[c]);
        }
    }
    for (int c = 0; c < n_cols; c++) _mm256_storeu_ps(acc[c], low[c]), _mm256_storeu_ps(acc[c] + 8, high[c]);
}

RP_TARGET_AVX512 RP_BODY void cols_avx512(const float *w, const float *const *x, int64_t n, int n_cols,
                                          float (*acc)[RP_LANES]) {
    __m512 sum[RP_DOT_COLS];
    for (int c = 0; c < n_cols; c++) sum[c] = _mm512_loadu_ps(acc[c]);
    for (int64_t i = 0; i < n; i += RP_LANES) {
        const __m512 v = _mm512_loadu_ps(w + i);
        for (int c = 0; c < n_cols; c++) sum[c] = _mm512_fmadd_ps(v, _mm512_loadu_ps(x[c] + i), sum[c]);
    }
    for (int c = 0; c < n_cols; c++) _mm512_storeu_ps(acc[c], sum[c]);
}
#endif

#if defined(__aarch64__)
RP_BODY void cols_neon(const float *w, const float *const *x, int64_t n, int n_cols, float (*acc)[RP_LANES]) {
    enum { VECS = RP_LANES / 4 };
    float32x4_t sum[RP_DOT_COLS][VECS];
    for (int c = 0; c < n_cols; c++)
        for (int k = 0; k < VECS; k++) sum[c][k] = vld1q_f32(acc[c] + 4 * k);
    for (int64_t i = 0; i < n; i += RP_LANES)
        for (int k = 0; k < VECS; k++) {
            const float32x4_t v = vld1q_f32(w + i + 4 * k);
            for (int c = 0; c < n_cols; c++) sum[c][k] = vfmaq_f32(sum[c][k], v, vld1q_f32(x[c] + i + 4 * k));
        }
    for (int c = 0; c < n_cols; c++)
        for (int k = 0; k < VECS; k++) vst1q_f32(acc[c] + 4 * k, sum[c][k]);
}
#endif

/* A constant number of columns lets the loops over them unroll into registers. */
#define DOT(isa, target)                                                                                     \
    target static void dot_##isa(const float *w, const float *const *x, int64_t n, int n_cols,               \
                                 float(*acc)[RP_LANES]) {                                                    \
        const int64_t whole = n / RP_LANES * RP_LANES;                                                       \
        if (n_cols == 1)                                                                                     \
            cols_##isa(w, x, whole, 1, acc);                                                                 \
        else if (n_cols == RP_DOT_COLS)                                                                      \
            cols_##isa(w, x, whole, RP_DOT_COLS, acc);                                                       \
        else                                                                                                 \
            for (int c = 0; c < n_cols; c++) cols_##isa(w, x + c, whole, 1, acc + c);                        \
        rest(w, x, whole, n, n_cols, acc);                                                                   \
    }
#ifdef RP_X86
DOT(avx2, RP_TARGET_AVX2)
DOT(avx512, RP_TARGET_AVX512)
#elif defined(__aarch64__)
DOT(neon, )
#endif

FloatDotFunction *rp_float_dot_function(void) {
#ifdef RP_X86
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return dot_avx512;
    if (isa == RP_ISA_AVX2) return dot_avx2;
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return dot_neon;
#endif
    return dot_plain;
}
