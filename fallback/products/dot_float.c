/* The f32 micro-kernels of float_rows.h, and the reduction of their lanes. acc[r][c] has 16 lanes, element i in
 * lane i % 16; a register holds 16 (AVX-512), 8 or 4 lanes. */
#include "fallback/products/float_rows.h"
#include "fallback/products/trees_avx512.h"

#include <math.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Elements [i, end), at most 16, where i is a multiple of 16. */
static void lanes(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t i, int64_t end,
                  float (*acc)[RP_DOT_COLS][RP_LANES]) {
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < n_cols; c++)
            for (int l = 0; i + l < end; l++) acc[r][c][l] = fmaf(w[r][i + l], x[c][i + l], acc[r][c][l]);
}

static void dot_plain(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,
                      float (*acc)[RP_DOT_COLS][RP_LANES]) {
    int64_t i = 0;
    for (; i + RP_LANES <= n; i += RP_LANES) lanes(w, n_rows, x, n_cols, i, i + RP_LANES, acc);
    lanes(w, n_rows, x, n_cols, i, n, acc);
}

#ifdef RP_X86
/* One row at a time: two rows times four columns would take 16 registers for accumulators alone. */
RP_TARGET_AVX2 RP_BODY void row_avx2(const float *w, const float *const *x, int n_cols, int64_t n,
                                     float (*acc)[RP_LANES]) {
    __m256 low[RP_DOT_COLS], high[RP_DOT_COLS]; /* lanes 0-7 and 8-15 */
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

RP_TARGET_AVX2 RP_BODY void tile_avx2(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,
                                      float (*acc)[RP_DOT_COLS][RP_LANES]) {
    for (int r = 0; r < n_rows; r++) row_avx2(w[r], x, n_cols, n, acc[r]);
}

/* Up to four rows times four columns: 16 accumulators of 32 registers. */
RP_TARGET_AVX512 RP_BODY void tile_avx512(const float *const *w, int n_rows, const float *const *x, int n_cols,
                                          int64_t n, float (*acc)[RP_DOT_COLS][RP_LANES]) {
    __m512 sum[RP_DOT_ROWS][RP_DOT_COLS];
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < n_cols; c++) sum[r][c] = _mm512_loadu_ps(acc[r][c]);
    for (int64_t i = 0; i < n; i += RP_LANES) {
        __m512 v[RP_DOT_ROWS];
        for (int r = 0; r < n_rows; r++) v[r] = _mm512_loadu_ps(w[r] + i);
        for (int c = 0; c < n_cols; c++) {
            const __m512 of_x = _mm512_loadu_ps(x[c] + i);
            for (int r = 0; r < n_rows; r++) sum[r][c] = _mm512_fmadd_ps(v[r], of_x, sum[r][c]);
        }
    }
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < n_cols; c++) _mm512_storeu_ps(acc[r][c], sum[r][c]);
}

#elif defined(__aarch64__)
RP_BODY void row_neon(const float *w, const float *const *x, int n_cols, int64_t n, float (*acc)[RP_LANES]) {
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

RP_BODY void tile_neon(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,
                       float (*acc)[RP_DOT_COLS][RP_LANES]) {
    for (int r = 0; r < n_rows; r++) row_neon(w[r], x, n_cols, n, acc[r]);
}
#endif

/* Calls tile_ISA with constant numbers of rows and columns, so that its loops unroll and accumulators stay in
 * registers. Elements after the last multiple of 16 are added by `lanes`. */
#define DOT(isa, target)                                                                                               \
    target RP_BODY void rows_##isa(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,    \
                                   float(*acc)[RP_DOT_COLS][RP_LANES]) {                                               \
        if (n_cols == 4)                                                                                               \
            tile_##isa(w, n_rows, x, 4, n, acc);                                                                       \
        else if (n_cols == 3)                                                                                          \
            tile_##isa(w, n_rows, x, 3, n, acc);                                                                       \
        else if (n_cols == 2)                                                                                          \
            tile_##isa(w, n_rows, x, 2, n, acc);                                                                       \
        else                                                                                                           \
            tile_##isa(w, n_rows, x, 1, n, acc);                                                                       \
    }                                                                                                                  \
    target static void dot_##isa(const float *const *w, int n_rows, const float *const *x, int n_cols, int64_t n,      \
                                 float(*acc)[RP_DOT_COLS][RP_LANES]) {                                                 \
        const int64_t whole = n / RP_LANES * RP_LANES;                                                                 \
        if (n_rows == 1)                                                                                               \
            rows_##isa(w, 1, x, n_cols, whole, acc);                                                                   \
        else                                                                                                           \
            rows_##isa(w, RP_DOT_ROWS, x, n_cols, whole, acc);                                                         \
        lanes(w, n_rows, x, n_cols, whole, n, acc);                                                                    \
    }
#ifdef RP_X86
DOT(avx2, RP_TARGET_AVX2)
DOT(avx512, RP_TARGET_AVX512)
#elif defined(__aarch64__)
DOT(neon, )
#endif

/* The upper half of the lanes is added to the lower half until one is left. */
static void reduce_plain(float (*acc)[RP_LANES], float *y) {
    for (int c = 0; c < RP_DOT_COLS; c++) {
        for (int n = RP_LANES / 2; n > 0; n /= 2)
            for (int l = 0; l < n; l++) acc[c][l] += acc[c][l + n];
        y[c] = acc[c][0];
    }
}

#ifdef RP_X86
RP_TARGET_AVX512 static void reduce_avx512(float (*acc)[RP_LANES], float *y) {
    __m512 v[RP_DOT_COLS];
    for (int c = 0; c < RP_DOT_COLS; c++) v[c] = _mm512_loadu_ps(acc[c]);
    _mm_storeu_ps(y, quarter_heads(reduce_4x16(v)));
}

RP_TARGET_AVX512 static void whole_avx512(const float *const *w, const float *const *x, int64_t n, float *const *y) {
    __m512          sum[RP_DOT_COLS][RP_DOT_ROWS];
    const int64_t   whole = n / RP_LANES * RP_LANES;
    const __mmask16 rest  = (__mmask16)((1u << (n - whole)) - 1);
    for (int c = 0; c < RP_DOT_COLS; c++)
        for (int r = 0; r < RP_DOT_ROWS; r++) sum[c][r] = _mm512_setzero_ps();
    for (int64_t i = 0; i < whole; i += RP_LANES) {
        __m512 v[RP_DOT_ROWS];
        for (int r = 0; r < RP_DOT_ROWS; r++) v[r] = _mm512_loadu_ps(w[r] + i);
        for (int c = 0; c < RP_DOT_COLS; c++) {
            const __m512 of_x = _mm512_loadu_ps(x[c] + i);
            for (int r = 0; r < RP_DOT_ROWS; r++) sum[c][r] = _mm512_fmadd_ps(v[r], of_x, sum[c][r]);
        }
    }
    for (int c = 0; c < RP_DOT_COLS && rest != 0; c++) {
        const __m512 of_x = _mm512_maskz_loadu_ps(rest, x[c] + whole);
        for (int r = 0; r < RP_DOT_ROWS; r++)
            sum[c][r] = _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(rest, w[r] + whole), of_x, sum[c][r], rest);
    }
    for (int c = 0; c < RP_DOT_COLS; c++) _mm_storeu_ps(y[c], quarter_heads(reduce_4x16(sum[c])));
}
#endif

FloatKernels rp_float_kernels(void) {
#ifdef RP_X86
    const RpCpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return (FloatKernels){dot_avx512, reduce_avx512, whole_avx512};
    if (isa == RP_ISA_AVX2) return (FloatKernels){dot_avx2, reduce_plain, NULL};
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return (FloatKernels){dot_neon, reduce_plain, NULL};
#endif
    return (FloatKernels){dot_plain, reduce_plain, NULL};
}
