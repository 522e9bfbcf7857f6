/* tq1_0.h - TQ1_0: x[i] = d * (q[i] - 1) with q from 0 to 2. */
#ifndef FALLBACK_QUANTS_TYPES_TQ1_0_H
#define FALLBACK_QUANTS_TYPES_TQ1_0_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* A byte has five digits of base 3, as a fraction: byte = ceil(256 / 243 * (81 q0 + 27 q1 + 9 q2 + 3 q3 + q4)).
 * Multiplied by 3^n modulo 256, a byte has digit n in front. That number times 3 / 256, rounded down, is the digit.
 *
 *     elements 32n + k         n in 0..4, k in 0..31   digit n of qs[k]
 *     elements 160 + 16n + k   n in 0..4, k in 0..15   digit n of qs[32 + k]
 *     elements 240 + 4n + k    n in 0..3, k in 0..3    digit n of qh[k] */
typedef struct BlockTQ1_0 {
    uint8_t  qs[48], qh[4];
    uint16_t d;
} BlockTQ1_0;

/* Digit n of a byte, less 1. */
RP_BODY int8_t rp_tq1_digit(uint8_t byte, int n) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (int8_t)(((uint8_t)(byte * powers[n]) * 3 >> 8) - 1);
}

RP_BODY void expand_tq1_0(const BlockTQ1_0 *b, int i, int8_t *v) {
    for (int k = 0; k < 32 && i < 5; k++) v[k] = rp_tq1_digit(b->qs[k], i);
    if (i < 5) return;
    for (int k = 0; k < 16; k++) v[k] = rp_tq1_digit(b->qs[32 + k], 2 * (i - 5));
    for (int k = 0; k < 16; k++)
        v[16 + k] = i < 7 ? rp_tq1_digit(b->qs[32 + k], 2 * (i - 5) + 1) : rp_tq1_digit(b->qh[k % 4], k / 4);
}
RP_EXPAND_NEON(TQ1_0, tq1_0)

#ifdef RP_X86
/* Bytes times 3^n. Bytes less 128 times 3^n are the same less 128, modulo 256. */
RP_TARGET_AVX2 RP_BODY __m256i rp_tq1_times_avx2(__m256i v, int n) {
    for (int k = 0; k < n; k++) v = _mm256_add_epi8(_mm256_add_epi8(v, v), v);
    return v;
}

/* The four bytes of qh, times 1, 3, 9 and 27, in each half. */
RP_TARGET_AVX2 RP_BODY __m256i rp_tq1_qh_avx2(__m256i v) {
    const __m256i low = _mm256_blend_epi32(v, rp_tq1_times_avx2(v, 1), 0xaa);
    return _mm256_blend_epi32(low, rp_tq1_times_avx2(low, 2), 0xcc);
}

/* Digits less 1 of bytes less 128. A byte's first digit is 0 below 86, and 2 from 171 on. */
RP_TARGET_AVX2 RP_BODY __m256i expand_tq1_0_avx2(const BlockTQ1_0 *b, int i) {
    const __m256i top  = _mm256_set1_epi8(-128);
    const __m256i all  = _mm256_xor_si256(_mm256_loadu_si256((const void *)b->qs), top);
    const __m256i rest = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(b->qs + 32)));
    const __m256i low  = rp_tq1_times_avx2(_mm256_xor_si256(rest, top), i < 5 ? 0 : 2 * (i - 5));
    const __m256i last = _mm256_xor_si256(_mm256_set1_epi32((int)rp_word_at(b->qh)), top);
    const __m256i high = i < 7 ? rp_tq1_times_avx2(low, 1) : rp_tq1_qh_avx2(last);
    const __m256i v    = i < 5 ? rp_tq1_times_avx2(all, i) : _mm256_blend_epi32(low, high, 0xf0);
    const __m256i one  = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(85 - 128)),
                  two  = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(42));
    return _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(one, two)); /* both are -1 where true */
}
#endif

/* One scale for all eight sub-blocks. */
RP_BODY void sub_scales_tq1_0(const BlockTQ1_0 *b, float *scale, float *min) {
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = rp_f16_to_f32(b->d);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_tq1_0_avx2(const BlockTQ1_0 *b, int part, __m256 *min) {
    return (void)part, (void)min, rp_times_f16_avx2(b->d, 1.0f, _mm256_set1_epi32(1));
}
#endif

/* The byte of the first n digits q[0], q[step], ... */
static inline uint8_t rp_tq1_byte(const int *q, int step, int n) {
    int all = 0;
    for (int k = 0; k < 5; k++) all = 3 * all + (k < n ? q[step * k] : 0);
    return (uint8_t)((all * 256 + 242) / 243);
}

static inline void quantize_tq1_0(const float *x, const float *w, void *out) {
    BlockTQ1_0 *b = out;
    int         q[256];
    (void)w;
    b->d = rp_f32_to_f16(rp_fit_ternary(x, 256, q));
    for (int k = 0; k < 32; k++) b->qs[k] = rp_tq1_byte(q + k, 32, 5);
    for (int k = 0; k < 16; k++) b->qs[32 + k] = rp_tq1_byte(q + 160 + k, 16, 5);
    for (int k = 0; k < 4; k++) b->qh[k] = rp_tq1_byte(q + 240 + k, 4, 4);
}

#endif
