/* product.h - c[i][j] += sum_k a(i,k) * b[k][j] for i < m, j < n; a(i,k) = a[i * a_row + k * a_col]. Strides are
 * floats. The sums of a block of rows and columns stay in registers. Every one is one chain of fma in the order of k,
 * on all instruction sets (I8). */
#ifndef FALLBACK_TRAINING_PRODUCT_H
#define FALLBACK_TRAINING_PRODUCT_H

#include "fallback/simd/simd.h"

#include <math.h>

#if defined(RP_X86)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef struct Product {
    const float *a, *b;
    float       *c;
    int64_t      a_row, a_col, b_row, c_row;
    int          m, n, k;
} Product;

/* Columns [from, n). */
static void product_columns(const Product *p, int from) {
    for (int i = 0; i < p->m && from < p->n; i++)
        for (int k = 0; k < p->k; k++) {
            const float of_a = p->a[i * p->a_row + k * p->a_col];
            for (int j = from; j < p->n; j++)
                p->c[i * p->c_row + j] = fmaf(of_a, p->b[k * p->b_row + j], p->c[i * p->c_row + j]);
        }
}

/* Blocks of PRODUCT_ROWS rows, or one, and of up to VECTORS vectors; the vectors after the last whole block of columns
 * take a block that fits. */
enum { PRODUCT_ROWS = 6 };
#define PRODUCT(isa, target, Vector, LANES, VECTORS, load, spread, fma, store)                                         \
    target RP_BODY void product_block_##isa(const Product *p, int i, int j, const int rows, const int vectors) {       \
        const float *a = p->a + i * p->a_row, *b = p->b + j;                                                           \
        float       *c = p->c + i * p->c_row + j;                                                                      \
        Vector       sum[PRODUCT_ROWS][VECTORS];                                                                       \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int v = 0; v < vectors; v++) sum[r][v] = load(c + r * p->c_row + v * LANES);                          \
        for (int k = 0; k < p->k; k++) {                                                                               \
            Vector of_b[VECTORS];                                                                                      \
            for (int v = 0; v < vectors; v++) of_b[v] = load(b + k * p->b_row + v * LANES);                            \
            for (int r = 0; r < rows; r++) {                                                                           \
                const Vector of_a = spread(a[r * p->a_row + k * p->a_col]);                                            \
                for (int v = 0; v < vectors; v++) sum[r][v] = fma(of_a, of_b[v], sum[r][v]);                           \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int v = 0; v < vectors; v++) store(c + r * p->c_row + v * LANES, sum[r][v]);                          \
    }                                                                                                                  \
    target RP_BODY void product_rows_##isa(const Product *p, int j, const int vectors) {                               \
        int i = 0;                                                                                                     \
        for (; i + PRODUCT_ROWS <= p->m; i += PRODUCT_ROWS) product_block_##isa(p, i, j, PRODUCT_ROWS, vectors);       \
        for (; i < p->m; i++) product_block_##isa(p, i, j, 1, vectors);                                                \
    }                                                                                                                  \
    target static void product_##isa(const Product *p) {                                                               \
        int j = 0;                                                                                                     \
        for (; j + VECTORS * LANES <= p->n; j += VECTORS * LANES) product_rows_##isa(p, j, VECTORS);                   \
        if (VECTORS > 3 && j + 3 * LANES <= p->n) product_rows_##isa(p, j, VECTORS > 3 ? 3 : 1), j += 3 * LANES;       \
        if (VECTORS > 2 && j + 2 * LANES <= p->n) product_rows_##isa(p, j, VECTORS > 2 ? 2 : 1), j += 2 * LANES;       \
        for (; j + LANES <= p->n; j += LANES) product_rows_##isa(p, j, 1);                                             \
        product_columns(p, j);                                                                                         \
    }

#if defined(RP_X86)
PRODUCT(avx2, RP_TARGET_AVX2, __m256, 8, 2, _mm256_loadu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
PRODUCT(avx512, RP_TARGET_AVX512, __m512, 16, 4, _mm512_loadu_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
#elif defined(__aarch64__)
RP_BODY float32x4_t product_fma(float32x4_t x, float32x4_t y, float32x4_t sum) { return vfmaq_f32(sum, x, y); }
PRODUCT(neon, , float32x4_t, 4, 4, vld1q_f32, vdupq_n_f32, product_fma, vst1q_f32)
#endif

static void product(const Product *p) {
#if defined(RP_X86)
    const RpCpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) {
        product_avx512(p);
        return;
    }
    if (isa == RP_ISA_AVX2) {
        product_avx2(p);
        return;
    }
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) {
        product_neon(p);
        return;
    }
#endif
    product_columns(p, 0);
}

#endif
