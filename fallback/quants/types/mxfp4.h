/* mxfp4.h - MXFP4: 4-bit floats times a power of two. Nibbles are in the order of Q4_0 (q4.h). */
#ifndef FALLBACK_QUANTS_TYPES_MXFP4_H
#define FALLBACK_QUANTS_TYPES_MXFP4_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = 2^(e - 127) * value[q[i]], the 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives (OCP Microscaling
 * 1.0). To be integers they are doubled and raised by 12; the scale of the integer form is 2^(e - 128). */
typedef struct BlockMXFP4 {
    uint8_t e;
    uint8_t qs[16];
} BlockMXFP4;

/* 2^(e - 128): half of the block's scale 2^(e - 127), because the values are doubled. For e < 2 it is subnormal. */
RP_BODY float rp_mxfp4_half_scale(uint8_t e) {
    return rp_bits_to_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* The values of BlockMXFP4, doubled and raised by 12: value 1.5 (q = 3) is 2 * 1.5 + 12 = 15. */
static const uint8_t rp_mxfp4_values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

RP_BODY void mxfp4_block(const BlockMXFP4 *b, uint8_t *q, float *scale, float *min) {
    const float half = rp_mxfp4_half_scale(b->e);
    for (int i = 0; i < 16; i++) {
        q[i]      = rp_mxfp4_values[b->qs[i] & 15];
        q[i + 16] = rp_mxfp4_values[b->qs[i] >> 4];
    }
    rp_both_sum_blocks(scale, min, half, 0.0f);
}

/* The scale of OCP Microscaling 1.0: 2^(floor(log2(max|x|)) - 2), because the largest value, 6, has the power of
 * two 4. */
static inline void quantize_mxfp4(const float *x, const float *w, void *out) {
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    BlockMXFP4        *b          = out;
    const float        top        = fabsf(rp_largest(x, 32));
    int                e          = 0;
    (void)w;
    if (top > 0.0f) e = (int)floorf(log2f(top)) - 2 + 127;
    e    = e < 0 ? 0 : (e > 254 ? 254 : e);
    b->e = (uint8_t)e;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) {
        const float v = ldexpf(x[i], 127 - e);
        q[i]          = 0;
        for (int k = 1; k < 16; k++)
            if (fabsf(values[k] - v) < fabsf(values[q[i]] - v)) q[i] = (uint8_t)k;
    }
    rp_put_nibbles(q, 16, b->qs);
}

#ifdef RP_X86
/* 2^(e - 128), the scale of MXFP4's integer form. For e >= 2 it is a normal float with exponent field e - 1; for e
 * = 1 and e = 0 it is subnormal, with mantissa 0x400000 and 0x200000. Each candidate is the larger integer where it
 * applies:
 *
 *     e                       0            1            2            3
 *     (e - 1) << 23           negative     0            0x00800000   0x01000000
 *     0x200000 << min(e, 1)   0x00200000   0x00400000   0x00400000   0x00400000 */
RP_TARGET_AVX2 RP_BODY __m128 rp_mxfp4_scales(__m128i e) {
    const __m128i one    = _mm_set1_epi32(1);
    const __m128i normal = _mm_slli_epi32(_mm_sub_epi32(e, one), 23);
    const __m128i small  = _mm_sllv_epi32(_mm_set1_epi32(0x00200000), _mm_min_epi32(e, one));
    return _mm_castsi128_ps(_mm_max_epi32(normal, small));
}
#endif

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
INLINE void load_mxfp4(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    nibbles_of_blocks(p, sizeof(BlockMXFP4), 1, h, q);
    q[0] = _mm256_shuffle_epi8(values, q[0]);
    q[1] = _mm256_shuffle_epi8(values, q[1]);
}

INLINE void header_mxfp4(const char *const *p, Header *out) { no_header(p, out); }

/* The first byte of pair h's blocks, of four rows, in the order of PairScales. */
INLINE __m128i bytes8(const char *const *p, size_t block, int h) {
    const size_t a = (size_t)(2 * h) * block, b = a + block;
    __m128i      v = _mm_cvtsi32_si128(word32(p[0] + a));
    v              = _mm_insert_epi8(v, p[1][a], 1);
    v              = _mm_insert_epi8(v, p[2][a], 2);
    v              = _mm_insert_epi8(v, p[3][a], 3);
    v              = _mm_insert_epi8(v, p[0][b], 4);
    v              = _mm_insert_epi8(v, p[1][b], 5);
    v              = _mm_insert_epi8(v, p[2][b], 6);
    return _mm_insert_epi8(v, p[3][b], 7);
}

/* As rp_mxfp4_scales, for eight blocks. */
INLINE void scales_mxfp4(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    const __m256i one    = _mm256_set1_epi32(1);
    const __m256i e      = _mm256_cvtepu8_epi32(bytes8(p, sizeof(BlockMXFP4), h));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small  = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    (void)header, (void)j;
    out->scale = _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
    out->min   = _mm256_setzero_ps();
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
/* As rp_mxfp4_scales, for 8 rows. */
INLINE void begin_mxfp4(const SideRows *rows, Load *l) { nothing_shared(rows, l); }
INLINE void step_mxfp4(const SideRows *rows, int step, Load *l) {
    const __m256i one    = _mm256_set1_epi32(1);
    const __m256i word   = word_of_rows(rows, (size_t)step * sizeof(BlockMXFP4));
    const __m256i e      = _mm256_and_si256(word, _mm256_set1_epi32(255));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small  = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    l->scale[step]       = _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
    words_of_rows(rows, (size_t)step * sizeof(BlockMXFP4) + 1, l->raw);
}
INLINE __m256i quad_mxfp4(const Load *l, int step, int v, int k) {
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return (void)step, (void)v, _mm256_shuffle_epi8(values, nibble_quad(l, k));
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
INLINE void load_mxfp4(const char *p, int n_subs, Kstep *s) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i v = bytes_of_blocks(p + 1, sizeof(BlockMXFP4), n_subs);
    *s = (Kstep){.a = _mm512_shuffle_epi8(values, low_nibbles(v)), .b = _mm512_shuffle_epi8(values, high_nibbles(v))};
}

INLINE __m128 row_scales_mxfp4(const char *p, int n_subs) {
    const __m128i words = words_of_blocks(p, sizeof(BlockMXFP4), n_subs);
    const __m128  d     = rp_mxfp4_scales(_mm_and_si128(words, _mm_set1_epi32(255)));
    return _mm_maskz_mov_ps((__mmask8)((1 << n_subs) - 1), d);
}

INLINE void scales_mxfp4(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    __m512 v   = _mm512_castps128_ps512(row_scales_mxfp4(row[0] + at, n_subs));
    v          = _mm512_insertf32x4(v, row_scales_mxfp4(row[1] + at, n_subs), 1);
    v          = _mm512_insertf32x4(v, row_scales_mxfp4(row[2] + at, n_subs), 2);
    v          = _mm512_insertf32x4(v, row_scales_mxfp4(row[3] + at, n_subs), 3);
    out->scale = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
/* As rp_mxfp4_scales, for 16 rows. */
INLINE void begin_mxfp4(const PanelRows *rows, int n_subs, Load *l) {
    const __m512i one = _mm512_set1_epi32(1);
#pragma GCC unroll 4
    for (int u = 0; u < LOAD_STEPS; u++) {
        l->scale[u] = _mm512_setzero_ps();
        if (u >= n_subs) continue;
        const __m512i word  = word_of_rows(rows, (size_t)u * sizeof(BlockMXFP4));
        const __m512i e     = _mm512_and_si512(word, _mm512_set1_epi32(255));
        const __m512i large = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), _mm512_min_epi32(e, one));
        l->scale[u]         = _mm512_castsi512_ps(_mm512_max_epi32(large, small));
    }
}
INLINE void step_mxfp4(const PanelRows *rows, int step, Load *l) {
    words_of_rows(rows, (size_t)step * sizeof(BlockMXFP4) + 1, l->raw);
}
INLINE __m512i quad_mxfp4(const Load *l, int step, int v, int k) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return (void)step, (void)v, _mm512_shuffle_epi8(values, nibble_quad(l, k));
}
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
enum { LEFT_mxfp4 = 0, STRIDED_mxfp4 = 0 };
/* 2^(e - 128): see rp_mxfp4_half_scale. */
INLINE void scales_mxfp4(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    const uint8_t *e     = (const uint8_t *)p;
    uint8x16_t     bytes = vdupq_n_u8(0);
    bytes                = vld1q_lane_u8(e, bytes, 0);
    if (n_subs > 1) bytes = vld1q_lane_u8(e + sizeof(BlockMXFP4), bytes, 4);
    if (n_subs > 2) bytes = vld1q_lane_u8(e + 2 * sizeof(BlockMXFP4), bytes, 8);
    if (n_subs > 3) bytes = vld1q_lane_u8(e + 3 * sizeof(BlockMXFP4), bytes, 12);
    const uint32x4_t v      = vreinterpretq_u32_u8(bytes);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(v, vdupq_n_u32(1)), 23);
    const uint32x4_t small  = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(v));
    *scale                  = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(v, vdupq_n_u32(2)), small, normal));
}
INLINE void quarter_mxfp4(const char *p, int quarter, int8x16_t *v) {
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t     table      = vld1q_s8(values);
    nibbles(load16(p + (size_t)quarter * sizeof(BlockMXFP4) + 1), &v[0], &v[1]);
    for (int k = 0; k < 2; k++) v[k] = vqtbl1q_s8(table, vreinterpretq_u8_s8(v[k]));
}
#endif
