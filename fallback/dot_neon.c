/* Products for every CPU of AArch64, and the panels of both NEON variants. */
#include "fallback/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define NEON(name) name##_neon
#define INLINE     static inline __attribute__((always_inline))

#include "fallback/gemv_load_neon.h"

/* Eight sums of the products of a unit: two of them, added, still have room in 16 bits where quants have 5
 * bits, or 6 in units of 16. */
INLINE int16x8_t narrow_products(int unit, const int8x16_t *w, const int8x16_t *x) {
    int16x8_t sum = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0]));
    sum           = vmlal_high_s8(sum, w[0], x[0]);
    if (unit == 16) return sum;
    sum = vmlal_s8(sum, vget_low_s8(w[1]), vget_low_s8(x[1]));
    return vmlal_high_s8(sum, w[1], x[1]);
}

INLINE int32x4_t narrow_sums(int unit, const int8x16_t *w, const int8x16_t *x) {
    const int       n = unit / RP_GROUP;
    const int16x8_t a = narrow_products(unit, w, x), b = narrow_products(unit, w + n, x + n);
    const int16x8_t c = narrow_products(unit, w + 2 * n, x + 2 * n);
    const int16x8_t d = narrow_products(unit, w + 3 * n, x + 3 * n);
    return vpaddq_s32(vpaddlq_s16(vpaddq_s16(a, b)), vpaddlq_s16(vpaddq_s16(c, d)));
}

/* Of 32 products of 8 bits, of which two have room in 16: columns have no -128. */
INLINE int32x4_t wide_products(const int8x16_t *w, const int8x16_t *x) {
    const int16x8_t low = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0])), high = vmull_high_s8(w[0], x[0]);
    return vpadalq_s16(vpaddlq_s16(vmlal_s8(low, vget_low_s8(w[1]), vget_low_s8(x[1]))),
                       vmlal_high_s8(high, w[1], x[1]));
}

/* What span_sums starts with for quants that lack `minus`; the other three are not used. */
INLINE void span_start(int unit, int8x16_t minus, const int8x16_t *x, int32x4_t *start) {
    const int8x16_t w[] = {minus, minus, minus, minus, minus, minus, minus, minus};
    start[0]            = narrow_sums(unit, w, x);
}

/* The sums of four units. */
INLINE int32x4_t span_sums(int unit, bool wide, const int32x4_t *start, const int8x16_t *w,
                           const int8x16_t *x) {
    if (!wide) return vaddq_s32(start[0], narrow_sums(unit, w, x));
    return vpaddq_s32(vpaddq_s32(wide_products(w, x), wide_products(w + 2, x + 2)),
                      vpaddq_s32(wide_products(w + 4, x + 4), wide_products(w + 6, x + 6)));
}

INLINE int tile_cols(const QuantForm *form) { return form->offset == WIDE_OFFSET ? 2 : TILE_COLS; }

/* Products of a quad of four rows and one of a column: sum[0] of rows 0 and 1, sum[1] of rows 2 and 3. */
INLINE void add_products(bool first, int8x16_t w, int8x16_t x, int16x8_t *sum) {
    sum[0] =
        first ? vmull_s8(vget_low_s8(w), vget_low_s8(x)) : vmlal_s8(sum[0], vget_low_s8(w), vget_low_s8(x));
    sum[1] = first ? vmull_high_s8(w, x) : vmlal_high_s8(sum[1], w, x);
}

/* Eight rows of a unit of a panel times n columns of a group: in 16 bits as long as there is room. */
INLINE void tile_sums(const QuantForm *form, const int8_t *w, const int8_t *x, int n,
                      int32x4_t (*sum)[TILE_VECTORS]) {
    const int room = form->offset == WIDE_OFFSET ? 2 * RP_QUAD : form->unit;
    int32x4_t pairs[TILE_COLS][TILE_VECTORS][2];
#pragma GCC unroll 4
    for (int i = 0; i < form->unit; i += room) {
        int16x8_t few[TILE_COLS][TILE_VECTORS][2];
#pragma GCC unroll 8
        for (int k = i; k < i + room; k += RP_QUAD) {
            int8x16_t rows[TILE_VECTORS];
            for (int v = 0; v < TILE_VECTORS; v++) rows[v] = vld1q_s8(w + RP_PANEL_ROWS * k + RP_GROUP * v);
#pragma GCC unroll 4
            for (int c = 0; c < n; c++) {
                const int8x16_t quad =
                    vreinterpretq_s8_s32(vld1q_dup_s32((const void *)(x + c * form->unit + k)));
                for (int v = 0; v < TILE_VECTORS; v++) add_products(k == i, rows[v], quad, few[c][v]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < n; c++)
            for (int v = 0; v < TILE_VECTORS; v++)
                for (int h = 0; h < 2; h++)
                    pairs[c][v][h] =
                        i == 0 ? vpaddlq_s16(few[c][v][h]) : vpadalq_s16(pairs[c][v][h], few[c][v][h]);
    }
    for (int c = 0; c < n; c++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = vpaddq_s32(pairs[c][v][0], pairs[c][v][1]);
}

#include "fallback/dot_neon.h"

/* ---- panels: quants as signed bytes, without their offset ---- */

enum { PACK_ROWS = 4 };

/* Word k of four vectors becomes lanes of vector k. */
INLINE void transpose(const int32x4_t *v, int32x4_t *out) {
    const int32x4_t a = vtrn1q_s32(v[0], v[1]), b = vtrn2q_s32(v[0], v[1]);
    const int32x4_t c = vtrn1q_s32(v[2], v[3]), d = vtrn2q_s32(v[2], v[3]);
    const int64x2_t a2 = vreinterpretq_s64_s32(a), b2 = vreinterpretq_s64_s32(b);
    const int64x2_t c2 = vreinterpretq_s64_s32(c), d2 = vreinterpretq_s64_s32(d);
    out[0] = vreinterpretq_s32_s64(vtrn1q_s64(a2, c2)), out[1] = vreinterpretq_s32_s64(vtrn1q_s64(b2, d2));
    out[2] = vreinterpretq_s32_s64(vtrn2q_s64(a2, c2)), out[3] = vreinterpretq_s32_s64(vtrn2q_s64(b2, d2));
}

/* Words of four rows: the first n become vectors `step` bytes apart. */
INLINE void store_words(const int32x4_t *v, int n, size_t step, char *to) {
    int32x4_t out[4];
    transpose(v, out);
    for (int k = 0; k < n; k++) vst1q_s32((void *)(to + (size_t)k * step), out[k]);
}

/* What one load holds of four rows: all its spans, or of a last one `units` units. */
INLINE void store_load(const SpanType *t, const char *const *w, int units, char *to) {
    const QuantForm form       = t->form;
    const size_t    unit_bytes = rp_panel_unit_bytes(&form);
    const int8x16_t offset     = vdupq_n_s8((int8_t)form.offset);
    float32x4_t     scale[PACK_ROWS][MAX_SPANS], min[PACK_ROWS][MAX_SPANS];
    for (int r = 0; r < PACK_ROWS; r++) t->scales(w[r], units, scale[r], min[r]);
    for (int h = 0; h < t->n_spans; h++) {
        char     *scales = to + (size_t)(h * RP_SPAN_UNITS) * unit_bytes + RP_PANEL_ROWS * form.unit;
        int32x4_t v[PACK_ROWS], m[PACK_ROWS];
        for (int r = 0; r < PACK_ROWS; r++) v[r] = vreinterpretq_s32_f32(scale[r][h]);
        store_words(v, units, unit_bytes, scales);
        if (!form.has_min) continue;
        for (int r = 0; r < PACK_ROWS; r++) m[r] = vreinterpretq_s32_f32(min[r][h]);
        store_words(m, units, unit_bytes, scales + RP_PANEL_ROWS * sizeof(float));
    }
    for (int k = 0; k < stretches(t); k++) {
        int8x16_t q[PACK_ROWS][STRETCH_VECTORS];
        for (int r = 0; r < PACK_ROWS; r++) load_stretch(t, w[r], k, units, q[r]);
        for (int i = 0; i < (t->n_spans == 1 ? 2 * units : STRETCH_VECTORS); i++) {
            const int at   = k * STRETCH + i * RP_GROUP;
            char     *quad = to + (size_t)(at / form.unit) * unit_bytes + RP_PANEL_ROWS * (at % form.unit);
            int32x4_t v[PACK_ROWS];
            for (int r = 0; r < PACK_ROWS; r++) v[r] = vreinterpretq_s32_s8(vsubq_s8(q[r][i], offset));
            store_words(v, 4, RP_PANEL_ROWS * RP_QUAD, quad);
        }
    }
}

INLINE void pack_panel(const SpanType *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const Ahead *ahead, char *panel) {
    const int64_t elems = stretches(t) * STRETCH;
    const size_t  bytes = (size_t)(elems / t->form.unit) * rp_panel_unit_bytes(&t->form);
    const char   *row[RP_PANEL_ROWS];
    rp_take_rows(rows, stride, n_rows, RP_PANEL_ROWS, row);
    for (int r0 = 0; r0 < RP_PANEL_ROWS; r0 += PACK_ROWS) {
        const char **w  = row + r0;
        char        *to = panel + r0 * RP_QUAD;
        for (int64_t i = 0; i < n; i += elems, to += bytes) {
            const int64_t unit = (r0 / PACK_ROWS * n + i) / t->form.unit;
            rp_prefetch_units(ahead, unit / (RP_PANEL_ROWS / PACK_ROWS),
                              (int)(elems / t->form.unit) / (RP_PANEL_ROWS / PACK_ROWS));
            if (i + elems <= n)
                store_load(t, w, RP_SPAN_UNITS, to);
            else
                store_load(t, w, (int)((n - i) / 32), to);
            for (int r = 0; r < PACK_ROWS; r++) w[r] += t->bytes;
        }
    }
}

#define KERNEL(ID, name, ...)                                                                                \
    static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n, const Ahead *ahead,      \
                            char *panel) {                                                                   \
        const SpanType t = SPAN_TYPE(name, __VA_ARGS__);                                                     \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                               \
    }
SPAN_TYPES(KERNEL)
#undef KERNEL

void rp_pack_panel_neon(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                        const Ahead *ahead, char *panel) {
    typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const Ahead *ahead,
                      char *panel);
#define ROW(ID, name, ...) [RP_##ID]         = pack_##name,
    static Pack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ROW)};
#undef ROW
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}
#endif
