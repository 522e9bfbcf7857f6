/* GEMV and the GEMM micro-kernel for AArch64 CPUs with dot product instructions (FEAT_DotProd). This file alone is
 * compiled for them. SDOT adds four int8 products to each 32-bit lane, so nothing can overflow. */
#include "fallback/products/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define NEON(name) name##_neon_dotprod
#define INLINE     static inline __attribute__((always_inline))

#include "fallback/products/gemv_load_neon.h"

/* start + w . x of a sub-block, as four partial sums. */
INLINE int32x4_t sub_dot(int sub_elems, int32x4_t start, const int8x16_t *w, const int8x16_t *x) {
    const int32x4_t first = vdotq_s32(start, w[0], x[0]);
    return sub_elems == 32 ? vdotq_s32(first, w[1], x[1]) : first;
}

/* Lane u = the sum of the lanes of sum[u]. */
INLINE int32x4_t add_lanes(const int32x4_t *sum) {
    return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

/* The dot products of a k-step with weights that all equal `minus`, the negated offset. 32-elem sub-blocks keep
 * partial sums, so that kstep_sums starts from them for free. With 16-elem sub-blocks a slice has two k-steps,
 * whose partial sums would take too many registers; those are reduced to start[0], lane u = sub-block u. */
INLINE void kstep_start(int sub_elems, int8x16_t minus, const int8x16_t *x, int32x4_t *start) {
    const int8x16_t w[] = {minus, minus};
    for (int u = 0; u < RP_KSTEP_SUBS; u++)
        start[u] = sub_dot(sub_elems, vdupq_n_s32(0), w, x + sub_elems / VECTOR_ELEMS * u);
    if (sub_elems == 16) start[0] = add_lanes(start);
}

/* Dot products of a k-step with the offset subtracted, lane u = sub-block u. */
INLINE int32x4_t kstep_sums(int sub_elems, bool wide, const int32x4_t *start, const int8x16_t *w, const int8x16_t *x) {
    const int n = sub_elems / VECTOR_ELEMS;
    int32x4_t sum[RP_KSTEP_SUBS];
    (void)wide;
    for (int u = 0; u < RP_KSTEP_SUBS; u++)
        sum[u] = sub_dot(sub_elems, sub_elems == 16 ? vdupq_n_s32(0) : start[u], w + n * u, x + n * u);
    return sub_elems == 16 ? vaddq_s32(start[0], add_lanes(sum)) : add_lanes(sum);
}

INLINE int tile_cols(const QuantForm *form) { return (void)form, TILE_COLS; }

/* sum + w . quad k of x, in each lane. The lane index must be a literal. */
INLINE int32x4_t dot_quad(int32x4_t sum, int8x16_t w, int8x16_t x, int k) {
    if (k == 0) return vdotq_laneq_s32(sum, w, x, 0);
    if (k == 1) return vdotq_laneq_s32(sum, w, x, 1);
    if (k == 2) return vdotq_laneq_s32(sum, w, x, 2);
    return vdotq_laneq_s32(sum, w, x, 3);
}

enum { QUADS = VECTOR_ELEMS / RP_QUAD };

/* Dot products of one sub-block: eight rows of a panel times n columns of a group, lane r of sum[c][v] = row 4v +
 * r. */
INLINE void tile_sums(const QuantForm *form, const int8_t *w, const int8_t *x, int n, int32x4_t (*sum)[TILE_VECTORS]) {
    for (int c = 0; c < n; c++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int i = 0; i < form->sub_elems; i += VECTOR_ELEMS) {
        int8x16_t rows[QUADS][TILE_VECTORS];
        for (int k = 0; k < QUADS; k++)
            for (int v = 0; v < TILE_VECTORS; v++)
                rows[k][v] = vld1q_s8(w + RP_PANEL_ROWS * (i + RP_QUAD * k) + VECTOR_ELEMS * v);
#pragma GCC unroll 4
        for (int c = 0; c < n; c++) {
            const int8x16_t column = vld1q_s8(x + c * form->sub_elems + i);
#pragma GCC unroll 4
            for (int k = 0; k < QUADS; k++)
                for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = dot_quad(sum[c][v], rows[k][v], column, k);
        }
    }
}

#include "fallback/products/dot_neon.h"
#endif
