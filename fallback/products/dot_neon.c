/* GEMV, the GEMM micro-kernel and packed panels for NEON without dot product instructions. The panels serve both
 * variants.
 *
 * SMULL and SMLAL multiply int8 by int8 into 16-bit lanes. A limit at each function shows how many products fit
 * before the sums are widened to 32 bits, so results are exact. Activations are never -128 (quantize.c). */
#include "fallback/products/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define NEON(name) name##_neon
#define INLINE     static inline __attribute__((always_inline))

#include "fallback/products/gemv_load_neon.h"

/* The limits of narrow_products and of `few` in tile_sums: a quarter of a sub-block is added in 16 bits. */
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert((offset) == WIDE_OFFSET || (top)*127 * (sub) / 4 <= INT16_MAX,                                       \
                  #name ": the products of a quarter of a sub-block fit in 16 bits");
RP_QUANTS(X)
#undef X

/* The products of a sub-block as eight 16-bit sums, of 4 products each (16-elem sub-blocks: 2). Two sums can still
 * be added: 31 * 127 * 8 = 31496 with 5-bit q, 63 * 127 * 4 = 32004 with the 6-bit q of Q6_K. */
INLINE int16x8_t narrow_products(int sub_elems, const int8x16_t *w, const int8x16_t *x) {
    int16x8_t sum = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0]));
    sum           = vmlal_high_s8(sum, w[0], x[0]);
    if (sub_elems == 16) return sum;
    sum = vmlal_s8(sum, vget_low_s8(w[1]), vget_low_s8(x[1]));
    return vmlal_high_s8(sum, w[1], x[1]);
}

/* Dot products of a k-step, lane u = sub-block u. */
INLINE int32x4_t narrow_sums(int sub_elems, const int8x16_t *w, const int8x16_t *x) {
    const int       n = sub_elems / VECTOR_ELEMS;
    const int16x8_t a = narrow_products(sub_elems, w, x), b = narrow_products(sub_elems, w + n, x + n);
    const int16x8_t c = narrow_products(sub_elems, w + 2 * n, x + 2 * n);
    const int16x8_t d = narrow_products(sub_elems, w + 3 * n, x + 3 * n);
    return vpaddq_s32(vpaddlq_s16(vpaddq_s16(a, b)), vpaddlq_s16(vpaddq_s16(c, d)));
}

/* 8-bit q: the 32 products of a sub-block as four 32-bit sums. Two products fit in 16 bits: 128 * 127 * 2 = 32512. */
INLINE int32x4_t wide_products(int sub_elems, const int8x16_t *w, const int8x16_t *x) {
    const int16x8_t low = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0])), high = vmull_high_s8(w[0], x[0]);
    if (sub_elems == 16) return vpadalq_s16(vpaddlq_s16(low), high);
    return vpadalq_s16(vpaddlq_s16(vmlal_s8(low, vget_low_s8(w[1]), vget_low_s8(x[1]))),
                       vmlal_high_s8(high, w[1], x[1]));
}

/* start[0] = the dot products of a k-step with weights that all equal `minus`, the negated offset. start[1..3] are
 * not used. */
INLINE void kstep_start(int sub_elems, int8x16_t minus, const int8x16_t *x, int32x4_t *start) {
    const int8x16_t w[] = {minus, minus, minus, minus, minus, minus, minus, minus};
    start[0]            = narrow_sums(sub_elems, w, x);
}

/* Dot products of a k-step with the offset subtracted, lane u = sub-block u. 8-bit q have no offset. */
INLINE int32x4_t kstep_sums(int sub_elems, bool wide, const int32x4_t *start, const int8x16_t *w, const int8x16_t *x) {
    if (!wide) return vaddq_s32(start[0], narrow_sums(sub_elems, w, x));
    const int n = sub_elems / VECTOR_ELEMS;
    return vpaddq_s32(
        vpaddq_s32(wide_products(sub_elems, w, x), wide_products(sub_elems, w + n, x + n)),
        vpaddq_s32(wide_products(sub_elems, w + 2 * n, x + 2 * n), wide_products(sub_elems, w + 3 * n, x + 3 * n)));
}

INLINE int tile_cols(const QuantForm *form) { return form->offset == WIDE_OFFSET ? 2 : TILE_COLS; }

/* Adds the products of a quad of four rows (w) and a quad of a column, repeated four times (x), to 16-bit sums:
 * sum[0] lanes 0-3 are row 0, 4-7 row 1; sum[1] rows 2 and 3. */
INLINE void add_products(bool first, int8x16_t w, int8x16_t x, int16x8_t *sum) {
    sum[0] = first ? vmull_s8(vget_low_s8(w), vget_low_s8(x)) : vmlal_s8(sum[0], vget_low_s8(w), vget_low_s8(x));
    sum[1] = first ? vmull_high_s8(w, x) : vmlal_high_s8(sum[1], w, x);
}

/* Dot products of one sub-block: eight rows of a panel times n columns of a group, lane r of sum[c][v] = row 4v +
 * r. A quad adds one product to each 16-bit lane, so `few` takes a whole sub-block (31 * 127 * 8 = 31496), of 8-bit
 * q two quads (128 * 127 * 2 = 32512), before it is widened. */
INLINE void tile_sums(const QuantForm *form, const int8_t *w, const int8_t *x, int n, int32x4_t (*sum)[TILE_VECTORS]) {
    const int room = form->offset == WIDE_OFFSET ? 2 * RP_QUAD : form->sub_elems;
    int32x4_t pairs[TILE_COLS][TILE_VECTORS][2];
#pragma GCC unroll 4
    for (int i = 0; i < form->sub_elems; i += room) {
        int16x8_t few[TILE_COLS][TILE_VECTORS][2];
#pragma GCC unroll 8
        for (int k = i; k < i + room; k += RP_QUAD) {
            int8x16_t rows[TILE_VECTORS];
            for (int v = 0; v < TILE_VECTORS; v++) rows[v] = vld1q_s8(w + RP_PANEL_ROWS * k + VECTOR_ELEMS * v);
#pragma GCC unroll 4
            for (int c = 0; c < n; c++) {
                const int8x16_t quad = vreinterpretq_s8_s32(vld1q_dup_s32((const void *)(x + c * form->sub_elems + k)));
                for (int v = 0; v < TILE_VECTORS; v++) add_products(k == i, rows[v], quad, few[c][v]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < n; c++)
            for (int v = 0; v < TILE_VECTORS; v++)
                for (int h = 0; h < 2; h++)
                    pairs[c][v][h] = i == 0 ? vpaddlq_s16(few[c][v][h]) : vpadalq_s16(pairs[c][v][h], few[c][v][h]);
    }
    for (int c = 0; c < n; c++)
        for (int v = 0; v < TILE_VECTORS; v++) sum[c][v] = vpaddq_s32(pairs[c][v][0], pairs[c][v][1]);
}

#include "fallback/products/dot_neon.h"

/* ---- panels of signed q without the offset ---- */

enum { PACK_ROWS = 4 };

/* Transposes a 4 x 4 matrix of words: lane j of out[k] = word k of v[j]. */
INLINE void transpose(const int32x4_t *v, int32x4_t *out) {
    const int32x4_t a = vtrn1q_s32(v[0], v[1]), b = vtrn2q_s32(v[0], v[1]);
    const int32x4_t c = vtrn1q_s32(v[2], v[3]), d = vtrn2q_s32(v[2], v[3]);
    const int64x2_t a2 = vreinterpretq_s64_s32(a), b2 = vreinterpretq_s64_s32(b);
    const int64x2_t c2 = vreinterpretq_s64_s32(c), d2 = vreinterpretq_s64_s32(d);
    out[0] = vreinterpretq_s32_s64(vtrn1q_s64(a2, c2)), out[1] = vreinterpretq_s32_s64(vtrn1q_s64(b2, d2));
    out[2] = vreinterpretq_s32_s64(vtrn2q_s64(a2, c2)), out[3] = vreinterpretq_s32_s64(vtrn2q_s64(b2, d2));
}

/* Stores word k of four rows, for k < n, as one vector at to + k * step. */
INLINE void store_words(const int32x4_t *v, int n, size_t step, char *to) {
    int32x4_t out[4];
    transpose(v, out);
    for (int k = 0; k < n; k++) vst1q_s32((void *)(to + (size_t)k * step), out[k]);
}

/* Packs one load of four rows. n_subs is RP_KSTEP_SUBS, or 1 to 3 in the last load of rows of blocks of 32. */
INLINE void store_load(const QuantLoader *t, const char *const *w, int n_subs, char *to) {
    const QuantForm form      = t->form;
    const size_t    sub_bytes = rp_panel_sub_bytes(&form);
    const int8x16_t offset    = vdupq_n_s8((int8_t)form.offset);
    float32x4_t     scale[PACK_ROWS][MAX_KSTEPS], min[PACK_ROWS][MAX_KSTEPS];
    for (int r = 0; r < PACK_ROWS; r++) t->scales(w[r], n_subs, scale[r], min[r]);
    for (int h = 0; h < t->n_ksteps; h++) {
        char     *scales = to + (size_t)(h * RP_KSTEP_SUBS) * sub_bytes + RP_PANEL_ROWS * form.sub_elems;
        int32x4_t v[PACK_ROWS], m[PACK_ROWS];
        for (int r = 0; r < PACK_ROWS; r++) v[r] = vreinterpretq_s32_f32(scale[r][h]);
        store_words(v, n_subs, sub_bytes, scales);
        if (!form.has_min) continue;
        for (int r = 0; r < PACK_ROWS; r++) m[r] = vreinterpretq_s32_f32(min[r][h]);
        store_words(m, n_subs, sub_bytes, scales + RP_PANEL_ROWS * sizeof(float));
    }
    for (int k = 0; k < n_slices(t); k++) {
        int8x16_t q[PACK_ROWS][SLICE_VECTORS];
        for (int r = 0; r < PACK_ROWS; r++) load_slice(t, w[r], k, n_subs, q[r]);
        for (int i = 0; i < (t->n_ksteps == 1 ? 2 * n_subs : SLICE_VECTORS); i++) {
            const int at   = k * SLICE + i * VECTOR_ELEMS;
            char     *quad = to + (size_t)(at / form.sub_elems) * sub_bytes + RP_PANEL_ROWS * (at % form.sub_elems);
            int32x4_t v[PACK_ROWS];
            for (int r = 0; r < PACK_ROWS; r++) v[r] = vreinterpretq_s32_s8(vsubq_s8(q[r][i], offset));
            store_words(v, 4, RP_PANEL_ROWS * RP_QUAD, quad);
        }
    }
}

/* Four rows at a time. Prefetches are spread over the four passes, a quarter of the panel's stream in each. */
INLINE void pack_panel(const QuantLoader *t, const char *rows, size_t stride, int n_rows, int64_t n,
                       const PrefetchStream *ahead, char *panel) {
    const int64_t elems = n_slices(t) * SLICE;
    const size_t  bytes = (size_t)(elems / t->form.sub_elems) * rp_panel_sub_bytes(&t->form);
    const char   *row[RP_PANEL_ROWS];
    rp_row_pointers(rows, stride, n_rows, RP_PANEL_ROWS, row);
    for (int r0 = 0; r0 < RP_PANEL_ROWS; r0 += PACK_ROWS) {
        const char **w  = row + r0;
        char        *to = panel + r0 * RP_QUAD;
        for (int64_t i = 0; i < n; i += elems, to += bytes) {
            const int64_t sub = (r0 / PACK_ROWS * n + i) / t->form.sub_elems;
            rp_prefetch_subs(ahead, sub / (RP_PANEL_ROWS / PACK_ROWS),
                             (int)(elems / t->form.sub_elems) / (RP_PANEL_ROWS / PACK_ROWS));
            if (i + elems <= n)
                store_load(t, w, RP_KSTEP_SUBS, to);
            else
                store_load(t, w, (int)((n - i) / 32), to);
            for (int r = 0; r < PACK_ROWS; r++) w[r] += t->bytes;
        }
    }
}

#define KERNEL(ID, name, ...)                                                                                          \
    static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n, const PrefetchStream *ahead,       \
                            char *panel) {                                                                             \
        const QuantLoader t = QUANT_LOADER(ID, name);                                                                  \
        pack_panel(&t, rows, stride, n_rows, n, ahead, panel);                                                         \
    }
RP_QUANTS(KERNEL)
#undef KERNEL

void rp_pack_panel_neon(RpDtype dtype, const char *rows, size_t stride, int n_rows, int64_t n,
                        const PrefetchStream *ahead, char *panel) {
    typedef void Pack(const char *rows, size_t stride, int n_rows, int64_t n, const PrefetchStream *ahead, char *panel);
#define ROW(ID, name, ...) [RP_##ID]         = pack_##name,
    static Pack *const table[RP_DTYPE_COUNT] = {RP_QUANTS(ROW)};
#undef ROW
    table[dtype](rows, stride, n_rows, n, ahead, panel);
}
#endif
