/* Products for every CPU of AArch64, and what both NEON variants share. */
#include "fallback/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON(name) name##_neon

#define INLINE static inline __attribute__((always_inline))

/* Adds four neighbours of 16 bits to each lane. */
INLINE int32x4_t add_fours(int32x4_t sum, int16x8_t low, int16x8_t high) {
    return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

INLINE int32x4_t dot16(int32x4_t sum, const int8x16_t *w, const int8x16_t *x) {
    return add_fours(sum, vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0])), vmull_high_s8(w[0], x[0]));
}

/* Two products have room in 16 bits: columns have no -128. */
INLINE int32x4_t dot32(int32x4_t sum, const int8x16_t *w, const int8x16_t *x) {
    const int16x8_t low = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0])), high = vmull_high_s8(w[0], x[0]);
    return add_fours(sum, vmlal_s8(low, vget_low_s8(w[1]), vget_low_s8(x[1])),
                     vmlal_high_s8(high, w[1], x[1]));
}

#include "fallback/dot_neon.h"

/* A load of row r: `units` units of its first span, or all spans. */
INLINE void store_load(const SpanType *t, const char *w, int units, int64_t at, DotRows *out) {
    const int   n_halves = t->form.unit / RP_GROUP, span = RP_SPAN_UNITS * t->form.unit;
    float32x4_t scale[MAX_SPANS], min[MAX_SPANS];
    t->scales(w, units, scale, min);
    for (int h = 0; h < t->n_spans; h++) {
        const int64_t span_at = at + (int64_t)h * out->n_rows;
        vst1q_f32(out->scale + span_at * RP_SPAN_UNITS, scale[h]);
        if (t->form.has_min) vst1q_f32(out->min + span_at * RP_SPAN_UNITS, min[h]);
    }
    for (int part = 0; part < (t->n_spans == 1 ? units : PARTS); part++) {
        int8x16_t v[MAX_VECTORS];
        t->part(w, part, v);
        for (int k = 0; k < t->n_vectors; k++) {
            const int unit = place(t, part, k) / n_halves, half = place(t, part, k) % n_halves;
            int8_t   *q = (int8_t *)out->q + (at + (int64_t)(unit / RP_SPAN_UNITS) * out->n_rows) * span;
            vst1q_s8(q + 64 * half + RP_GROUP * (unit % RP_SPAN_UNITS),
                     vsubq_s8(v[k], vdupq_n_s8((int8_t)t->form.offset)));
        }
    }
}

INLINE void unpack(const SpanType *t, const char *w, int r, DotRows *out) {
    const int64_t span = RP_SPAN_UNITS * t->form.unit, elems = t->n_spans * span;
    for (int64_t i = 0; i < out->n; i += elems, w += t->bytes) {
        const int64_t at = i / span * out->n_rows + r;
        prefetch(w, t->bytes);
        if (i + elems <= out->n)
            store_load(t, w, RP_SPAN_UNITS, at, out);
        else
            store_load(t, w, (int)((out->n - i) / 32), at, out);
    }
}

#define KERNEL(ID, name, Block, scales, spans, vectors, ...)                                                 \
    static void unpack_##name(const char *w, int r, DotRows *out) {                                          \
        const SpanType t = {part_##name,  scales, spans, vectors, sizeof(Block) * (spans == 1 ? 4 : 1),      \
                            {__VA_ARGS__}};                                                                  \
        unpack(&t, w, r, out);                                                                               \
    }
SPAN_TYPES(KERNEL)
#undef KERNEL

void rp_unpack_row_neon(RpDtype dtype, const char *blocks, int r, DotRows *out) {
    typedef void Unpack(const char *w, int r, DotRows *out);
#define ROW(ID, name, ...) [RP_##ID]           = unpack_##name,
    static Unpack *const table[RP_DTYPE_COUNT] = {SPAN_TYPES(ROW)};
#undef ROW
    table[dtype](blocks, r, out);
}

void rp_dot_results_neon(const DotSums *sums, int n_rows, float *y) {
    for (int r = 0; r < n_rows; r++) {
        float32x4_t acc[RP_SPAN_UNITS];
        for (int u = 0; u < RP_SPAN_UNITS; u++) acc[u] = vld1q_f32(sums->acc[r] + 4 * u);
        y[r] = result(acc, vld1q_f32(sums->low[r]));
    }
}
#endif
