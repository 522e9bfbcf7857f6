/* q8_0.h - Q8_0: x[i] = d * qs[i]. */
#ifndef FALLBACK_QUANTS_TYPES_Q8_0_H
#define FALLBACK_QUANTS_TYPES_Q8_0_H

#include "base/limits.h"
#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = d * qs[i] */
typedef struct BlockQ8_0 {
    uint16_t d;
    int8_t   qs[32];
} BlockQ8_0;

/* Signed quants, raised by 128 to be unsigned like all others. */
RP_BODY void q8_0_block(const BlockQ8_0 *b, uint8_t *q, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(b->qs[i] + 128);
    rp_both_sum_blocks(scale, min, d, 0.0f);
}

/* As in the KV cache (copy.c), quants are 0 if 1/d could overflow. */
static inline void quantize_q8_0(const float *x, const float *w, void *out) {
    BlockQ8_0  *b = out;
    const float d = fabsf(rp_largest(x, 32)) / 127.0f, id = d >= RP_SMALLEST_SCALE ? 1.0f / d : 0.0f;
    (void)w;
    b->d = rp_f32_to_f16(d);
    for (int i = 0; i < 32; i++) b->qs[i] = (int8_t)roundf(x[i] * id);
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
INLINE void load_q8_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    p += 2 + (size_t)(2 * h) * sizeof(BlockQ8_0);
    q[0] = load32(p);
    q[1] = load32(p + sizeof(BlockQ8_0));
}

INLINE void header_q8_0(const char *const *p, Header *out) { no_header(p, out); }

INLINE void scales_q8_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ8_0), h, out);
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
INLINE void begin_q8_0(const SideRows *rows, Load *l) { nothing_shared(rows, l); }
INLINE void step_q8_0(const SideRows *rows, int step, Load *l) {
    only_scale(rows, sizeof(BlockQ8_0), step, l);
    eight_words_of_rows(rows, (size_t)step * sizeof(BlockQ8_0) + 2, l->raw);
}
INLINE __m256i quad_q8_0(const Load *l, int step, int v, int k) { return (void)step, (void)v, l->raw[k]; }
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
INLINE void scales_q8_0(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    half_scales(row, at, sizeof(BlockQ8_0), 1, n_subs, out);
}

INLINE void load_q8_0(const char *p, int n_subs, Kstep *s) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    const __m512i a   = bytes_of_blocks(p + 2, sizeof(BlockQ8_0), n_subs);
    const __m512i b   = bytes_of_blocks(p + 18, sizeof(BlockQ8_0), n_subs);
    *s                = (Kstep){.a = _mm512_xor_si512(a, top), .b = _mm512_xor_si512(b, top)};
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
INLINE void begin_q8_0(const PanelRows *rows, int n_subs, Load *l) { half_scales(rows, sizeof(BlockQ8_0), n_subs, l); }
INLINE void step_q8_0(const PanelRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, (size_t)step * sizeof(BlockQ8_0) + 2, l->raw);
}
INLINE __m512i quad_q8_0(const Load *l, int step, int v, int k) {
    return (void)step, (void)v, _mm512_xor_si512(l->raw[k], _mm512_set1_epi8((char)0x80));
}
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
enum { LEFT_q8_0 = 0, STRIDED_q8_0 = 0 };
INLINE void scales_q8_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ8_0), n_subs);
}
INLINE void quarter_q8_0(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ8_0) + 2;
    v[0] = vld1q_s8((const int8_t *)p);
    v[1] = vld1q_s8((const int8_t *)p + 16);
}
#endif
