/* q4.h - Q4_0 and Q4_1: 32 elements of 4 bits, with a scale; Q4_1 has a minimum too. Element i is in the low nibble of
 * qs[i], element i + 16 in its high nibble. */
#ifndef FALLBACK_QUANTS_TYPES_Q4_H
#define FALLBACK_QUANTS_TYPES_Q4_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = d * (q[i] - 8) */
typedef struct BlockQ4_0 {
    uint16_t d;
    uint8_t  qs[16];
} BlockQ4_0;

/* x[i] = d * q[i] + m */
typedef struct BlockQ4_1 {
    uint16_t d, m;
    uint8_t  qs[16];
} BlockQ4_1;

RP_BODY void q4_0_block(const BlockQ4_0 *b, uint8_t *q, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d);
    rp_nibbles(b->qs, 16, q);
    rp_both_sum_blocks(scale, min, d, 0.0f);
}

RP_BODY void q4_1_block(const BlockQ4_1 *b, uint8_t *q, float *scale, float *min) {
    rp_nibbles(b->qs, 16, q);
    rp_both_sum_blocks(scale, min, rp_f16_to_f32(b->d), rp_f16_to_f32(b->m));
}

static inline void quantize_q4_0(const float *x, const float *w, void *out) {
    BlockQ4_0 *b = out;
    uint8_t    q[32];
    b->d = rp_round_symmetric(x, w, 8, q);
    rp_put_nibbles(q, 16, b->qs);
}

static inline void quantize_q4_1(const float *x, const float *w, void *out) {
    BlockQ4_1 *b = out;
    uint8_t    q[32];
    rp_round_affine(x, w, 15, q, &b->d, &b->m);
    rp_put_nibbles(q, 16, b->qs);
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
INLINE void load_q4_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ4_0), 2, h, q);
}

INLINE void header_q4_0(const char *const *p, Header *out) { no_header(p, out); }

INLINE void scales_q4_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ4_0), h, out);
}

INLINE void load_q4_1(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ4_1), 4, h, q);
}

INLINE void header_q4_1(const char *const *p, Header *out) { no_header(p, out); }

INLINE void scales_q4_1(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    scales_with_minima(p, sizeof(BlockQ4_1), h, out);
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
#define NIBBLES(name, Block, scales, skip)                                                                             \
    INLINE void begin_##name(const SideRows *rows, Load *l) { nothing_shared(rows, l); }                               \
    INLINE void step_##name(const SideRows *rows, int step, Load *l) {                                                 \
        scales(rows, sizeof(Block), step, l);                                                                          \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip), l->raw);                                            \
    }                                                                                                                  \
    INLINE __m256i quad_##name(const Load *l, int step, int v, int k) { return (void)step, (void)v, nibble_quad(l, k); }
NIBBLES(q4_0, BlockQ4_0, only_scale, 2)
NIBBLES(q4_1, BlockQ4_1, scale_and_minimum, 4)
#undef NIBBLES
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
INLINE void scales_q4_0(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    half_scales(row, at, sizeof(BlockQ4_0), 1, n_subs, out);
}

INLINE void scales_q4_1(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    half_scales(row, at, sizeof(BlockQ4_1), 2, n_subs, out);
}

INLINE void load_q4_0(const char *p, int n_subs, Kstep *s) {
    const __m512i v = bytes_of_blocks(p + 2, sizeof(BlockQ4_0), n_subs);
    *s              = (Kstep){.a = low_nibbles(v), .b = high_nibbles(v)};
}

INLINE void load_q4_1(const char *p, int n_subs, Kstep *s) {
    const __m512i v = bytes_of_blocks(p + 4, sizeof(BlockQ4_1), n_subs);
    *s              = (Kstep){.a = low_nibbles(v), .b = high_nibbles(v)};
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
#define NIBBLES(name, Block, scales, skip)                                                                             \
    INLINE void begin_##name(const PanelRows *rows, int n_subs, Load *l) { scales(rows, sizeof(Block), n_subs, l); }   \
    INLINE void step_##name(const PanelRows *rows, int step, Load *l) {                                                \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip), l->raw);                                            \
    }                                                                                                                  \
    INLINE __m512i quad_##name(const Load *l, int step, int v, int k) { return (void)step, (void)v, nibble_quad(l, k); }
NIBBLES(q4_0, BlockQ4_0, half_scales, 2)
NIBBLES(q4_1, BlockQ4_1, scales_and_minima, 4)
#undef NIBBLES
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
enum { LEFT_q4_0 = RP_Q4_0_OFFSET, STRIDED_q4_0 = 0 };
INLINE void scales_q4_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ4_0), n_subs);
}
INLINE void quarter_q4_0(const char *p, int quarter, int8x16_t *v) {
    nibbles(load16(p + (size_t)quarter * sizeof(BlockQ4_0) + 2), &v[0], &v[1]);
}

enum { LEFT_q4_1 = 0, STRIDED_q4_1 = 0 };
INLINE void scales_q4_1(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ4_1), n_subs, scale, min);
}
INLINE void quarter_q4_1(const char *p, int quarter, int8x16_t *v) {
    nibbles(load16(p + (size_t)quarter * sizeof(BlockQ4_1) + 4), &v[0], &v[1]);
}
#endif
