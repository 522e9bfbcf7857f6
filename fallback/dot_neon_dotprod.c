/* Products for CPUs of AArch64 that have dot product instructions (FEAT_DotProd); compiled for those. */
#include "fallback/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define NEON(name) name##_neon_dotprod
#define INLINE     static inline __attribute__((always_inline))

#include "fallback/gemv_load_neon.h"

/* start + w . x of a unit, lane by lane. */
INLINE int32x4_t unit_dot(int unit, int32x4_t start, const int8x16_t *w, const int8x16_t *x) {
    const int32x4_t first = vdotq_s32(start, w[0], x[0]);
    return unit == 32 ? vdotq_s32(first, w[1], x[1]) : first;
}

INLINE int32x4_t add_lanes(const int32x4_t *sum) {
    return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

/* What quants that lack `minus` add to the sums of a span: lane by lane, but in units of 16, of which there
 * are two spans in registers, only the sums, in start[0]. */
INLINE void span_start(int unit, int8x16_t minus, const int8x16_t *x, int32x4_t *start) {
    const int8x16_t w[] = {minus, minus};
    for (int u = 0; u < RP_SPAN_UNITS; u++)
        start[u] = unit_dot(unit, vdupq_n_s32(0), w, x + unit / RP_GROUP * u);
    if (unit == 16) start[0] = add_lanes(start);
}

/* The sums of four units. */
INLINE int32x4_t span_sums(int unit, bool wide, const int32x4_t *start, const int8x16_t *w,
                           const int8x16_t *x) {
    const int n = unit / RP_GROUP;
    int32x4_t sum[RP_SPAN_UNITS];
    (void)wide;
    for (int u = 0; u < RP_SPAN_UNITS; u++)
        sum[u] = unit_dot(unit, unit == 16 ? vdupq_n_s32(0) : start[u], w + n * u, x + n * u);
    return unit == 16 ? vaddq_s32(start[0], add_lanes(sum)) : add_lanes(sum);
}

INLINE int tile_cols(const QuantForm *form) { return (void)form, TILE_COLS; }

/* sum + w times quad k of x. */
INLINE int32x4_t dot_quad(int32x4_t sum, int8x16_t w, int8x16_t x, int k) {
    if (k == 0) return vdotq_laneq_s32(sum, w, x, 0);
    if (k == 1) return vdotq_laneq_s32(sum, w, x, 1);
    if (k == 2) return vdotq_laneq_s32(sum, w, x, 2);
    return vdotq_laneq_s32(sum, w, x, 3);
}

enum { QUADS = RP_GROUP / RP_QUAD };

/* Eight rows of a unit of a panel times n columns of a group. */
INLINE void tile_sums(const QuantForm *form, const int8_t *w, const int8_t *x, int n,
                      int32x4_t (*sum)[TILE_VECTORS]) {
    for (int c = 0; c < n; c++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int i = 0; i < form->unit; i += RP_GROUP) {
        int8x16_t rows[QUADS][TILE_VECTORS];
        for (int k = 0; k < QUADS; k++)
            for (int v = 0; v < TILE_VECTORS; v++)
                rows[k][v] = vld1q_s8(w + RP_PANEL_ROWS * (i + RP_QUAD * k) + RP_GROUP * v);
#pragma GCC unroll 4
        for (int c = 0; c < n; c++) {
            const int8x16_t column = vld1q_s8(x + c * form->unit + i);
#pragma GCC unroll 4
            for (int k = 0; k < QUADS; k++)
                for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = dot_quad(sum[c][v], rows[k][v], column, k);
        }
    }
}

#include "fallback/dot_neon.h"
#endif
