/* One column times rows of f32, f16 or bf16: rows are converted in registers, four at a time, and the next four
 * are prefetched meanwhile. The order of a sum is that of float_rows.h:
 *
 *     y[r] = sum over lanes l of ( w[r][l] x[l] + w[r][l + 16] x[l + 16] + ... )
 *
 * While element i of four rows is multiplied, as many bytes as the four loads have are prefetched from 4 i elements
 * into the group of rows that is `ahead` bytes on, so that each cache line of it is prefetched once. */
#include "fallback/products/float_rows.h"
#include "fallback/products/trees_avx512.h"
#include "fallback/simd/prefetch.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { ROWS = RP_DOT_ROWS };

#if defined(RP_X86) || defined(__aarch64__)
RP_BODY size_t size_of(RpDtype type) { return type == RP_F32 ? sizeof(float) : sizeof(uint16_t); }

RP_BODY float element(RpDtype type, const char *row, int64_t i) {
    if (type == RP_F32) return ((const float *)(const void *)row)[i];
    const uint16_t half = ((const uint16_t *)(const void *)row)[i];
    return type == RP_F16 ? rp_f16_to_f32(half) : rp_bf16_to_f32(half);
}

/* Elements from `whole`, a multiple of 16, to n. */
RP_BODY void add_rest(RpDtype type, const char *w, size_t stride, const float *x, int64_t whole, int64_t n,
                      float (*acc)[RP_LANES]) {
    for (int r = 0; r < ROWS; r++)
        for (int64_t i = whole; i < n; i++)
            acc[r][i - whole] = fmaf(element(type, w + (size_t)r * stride, i), x[i], acc[r][i - whole]);
}
#endif

#ifdef RP_X86
RP_TARGET_AVX512 RP_BODY __m512 load_avx512(RpDtype type, const char *at) {
    if (type == RP_F32) return _mm512_loadu_ps(at);
    const __m256i half = _mm256_loadu_si256((const void *)at);
    if (type == RP_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

RP_TARGET_AVX512 RP_BODY void add_avx512(RpDtype type, const char *w, size_t stride, size_t ahead, const float *x,
                                         int64_t whole, float (*acc)[RP_LANES]) {
    const size_t bytes = RP_LANES * size_of(type);
    __m512       sum[ROWS];
    for (int r = 0; r < ROWS; r++) sum[r] = _mm512_loadu_ps(acc[r]);
    for (int64_t i = 0; i < whole; i += RP_LANES) {
        const char  *at   = w + (size_t)i * size_of(type);
        const __m512 of_x = _mm512_loadu_ps(x + i);
        rp_prefetch(w + ahead + ROWS * (size_t)i * size_of(type), ROWS * bytes);
        for (int r = 0; r < ROWS; r++)
            sum[r] = _mm512_fmadd_ps(load_avx512(type, at + (size_t)r * stride), of_x, sum[r]);
    }
    for (int r = 0; r < ROWS; r++) _mm512_storeu_ps(acc[r], sum[r]);
}

RP_TARGET_AVX2 RP_BODY __m256 load_avx2(RpDtype type, const char *at) {
    if (type == RP_F32) return _mm256_loadu_ps((const float *)(const void *)at);
    const __m128i half = _mm_loadu_si128((const void *)at);
    if (type == RP_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

RP_TARGET_AVX2 RP_BODY void add_avx2(RpDtype type, const char *w, size_t stride, size_t ahead, const float *x,
                                     int64_t whole, float (*acc)[RP_LANES]) {
    const size_t bytes = RP_LANES * size_of(type);
    __m256       low[ROWS], high[ROWS]; /* lanes 0-7 and 8-15 */
    for (int r = 0; r < ROWS; r++) low[r] = _mm256_loadu_ps(acc[r]), high[r] = _mm256_loadu_ps(acc[r] + 8);
    for (int64_t i = 0; i < whole; i += RP_LANES) {
        const char  *at    = w + (size_t)i * size_of(type);
        const __m256 x_low = _mm256_loadu_ps(x + i), x_high = _mm256_loadu_ps(x + i + 8);
        rp_prefetch(w + ahead + ROWS * (size_t)i * size_of(type), ROWS * bytes);
        for (int r = 0; r < ROWS; r++) {
            const char *row = at + (size_t)r * stride;
            low[r]          = _mm256_fmadd_ps(load_avx2(type, row), x_low, low[r]);
            high[r]         = _mm256_fmadd_ps(load_avx2(type, row + bytes / 2), x_high, high[r]);
        }
    }
    for (int r = 0; r < ROWS; r++) _mm256_storeu_ps(acc[r], low[r]), _mm256_storeu_ps(acc[r] + 8, high[r]);
}
#elif defined(__aarch64__)
RP_BODY float32x4_t load_neon(RpDtype type, const char *at) {
    if (type == RP_F32) return vld1q_f32((const float *)(const void *)at);
    const uint16x4_t half = vld1_u16((const uint16_t *)(const void *)at);
    if (type == RP_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

RP_BODY void add_neon(RpDtype type, const char *w, size_t stride, size_t ahead, const float *x, int64_t whole,
                      float (*acc)[RP_LANES]) {
    enum { VECS = RP_LANES / 4 };
    const size_t bytes = RP_LANES * size_of(type);
    float32x4_t  sum[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < VECS; k++) sum[r][k] = vld1q_f32(acc[r] + 4 * k);
    for (int64_t i = 0; i < whole; i += RP_LANES) {
        const char *at = w + (size_t)i * size_of(type);
        rp_prefetch(w + ahead + ROWS * (size_t)i * size_of(type), ROWS * bytes);
        for (int k = 0; k < VECS; k++) {
            const float32x4_t of_x = vld1q_f32(x + i + 4 * k);
            for (int r = 0; r < ROWS; r++)
                sum[r][k] =
                    vfmaq_f32(sum[r][k], load_neon(type, at + (size_t)r * stride + bytes / VECS * (size_t)k), of_x);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < VECS; k++) vst1q_f32(acc[r] + 4 * k, sum[r][k]);
}
#endif

/* Whole groups of four of n_rows rows. The type is a constant in each loop. */
#define GEMV(isa, target)                                                                                              \
    target RP_BODY int64_t groups_##isa(RpDtype type, const FloatColumn *c, int64_t n_rows, FloatReduce *reduce) {     \
        const int64_t whole = c->n / RP_LANES * RP_LANES;                                                              \
        const size_t  ahead = rp_prefetch_distance(ROWS * c->stride);                                                  \
        int64_t       r     = 0;                                                                                       \
        for (; r + ROWS <= n_rows; r += ROWS) {                                                                        \
            float       acc[ROWS][RP_LANES] = {0};                                                                     \
            const char *w                   = c->rows + (size_t)r * c->stride;                                         \
            add_##isa(type, w, c->stride, ahead, c->x, whole, acc);                                                    \
            add_rest(type, w, c->stride, c->x, whole, c->n, acc);                                                      \
            reduce(acc, c->y + r);                                                                                     \
        }                                                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    target static int64_t gemv_##isa(RpDtype type, const FloatColumn *c, int64_t n_rows, FloatReduce *reduce) {        \
        if (type == RP_F32) return groups_##isa(RP_F32, c, n_rows, reduce);                                            \
        if (type == RP_F16) return groups_##isa(RP_F16, c, n_rows, reduce);                                            \
        return type == RP_BF16 ? groups_##isa(RP_BF16, c, n_rows, reduce) : 0;                                         \
    }
#ifdef RP_X86
GEMV(avx2, RP_TARGET_AVX2)
GEMV(avx512, RP_TARGET_AVX512)
#elif defined(__aarch64__)
GEMV(neon, )
#endif

int64_t rp_gemv_float(RpDtype type, const FloatColumn *column, int64_t n_rows) {
#ifdef RP_X86
    FloatReduce   *reduce = rp_float_kernels().reduce;
    const RpCpuIsa isa    = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return gemv_avx512(type, column, n_rows, reduce);
    if (isa == RP_ISA_AVX2) return gemv_avx2(type, column, n_rows, reduce);
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return gemv_neon(type, column, n_rows, rp_float_kernels().reduce);
#endif
    (void)type, (void)column, (void)n_rows;
    return 0;
}
