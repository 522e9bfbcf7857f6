/* q6_k.h - Q6_K: 256 elements of 6 bits in sixteen sub-blocks, whose scales have 8 bits. */
#ifndef FALLBACK_QUANTS_TYPES_Q6_K_H
#define FALLBACK_QUANTS_TYPES_Q6_K_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = d * scales[i/16] * (q[i] - 32). Half h of the block, 128 elements, is 64 bytes of ql and 32 of qh:
 *
 *     elements 128h + i       i in 0..31   ql[64h + i]      low nibble    qh[32h + i] bits 0-1
 *     elements 128h + 32 + i               ql[64h + 32 + i] low nibble    qh[32h + i] bits 2-3
 *     elements 128h + 64 + i               ql[64h + i]      high nibble   qh[32h + i] bits 4-5
 *     elements 128h + 96 + i               ql[64h + 32 + i] high nibble   qh[32h + i] bits 6-7 */
typedef struct BlockQ6_K {
    uint8_t  ql[128];
    uint8_t  qh[64];
    int8_t   scales[16];
    uint16_t d;
} BlockQ6_K;

/* The four lines of the table at BlockQ6_K, for each half of the block. */
RP_BODY void q6_k_block(const BlockQ6_K *b, uint8_t *q, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d);
    for (int h = 0; h < 2; h++) {
        const uint8_t *ql = b->ql + 64 * h, *qh = b->qh + 32 * h;
        uint8_t       *y = q + 128 * h;
        for (int i = 0; i < 32; i++) {
            y[i]      = (uint8_t)((ql[i] & 15) | (qh[i] & 3) << 4);
            y[i + 32] = (uint8_t)((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4);
            y[i + 64] = (uint8_t)(ql[i] >> 4 | (qh[i] >> 4 & 3) << 4);
            y[i + 96] = (uint8_t)(ql[i + 32] >> 4 | (qh[i] >> 6 & 3) << 4);
        }
    }
    for (int g = 0; g < 16; g++) {
        scale[g] = d * (float)b->scales[g];
        min[g]   = 0.0f;
    }
}

static inline void quantize_q6_k(const float *x, const float *w, void *out) {
    BlockQ6_K *b = out;
    float      scale[16];
    uint8_t    q[256];
    for (int j = 0; j < 16; j++) scale[j] = rp_fit_symmetric(x + 16 * j, w + 16 * j, 16, 32);
    const float top = rp_largest(scale, 16);
    memset(b, 0, sizeof *b);
    b->d          = rp_f32_to_f16(top / -128.0f);
    const float d = rp_f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        b->scales[j]   = (int8_t)rp_nearest(scale[j] * rp_inverse(d), -128, 127);
        const float id = rp_inverse(d * (float)b->scales[j]);
        for (int i = 16 * j; i < 16 * j + 16; i++) q[i] = (uint8_t)(rp_nearest(x[i] * id, -32, 31) + 32);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            const uint8_t *y       = q + 128 * h + i;
            b->ql[64 * h + i]      = (uint8_t)((y[0] & 15) | (y[64] & 15) << 4);
            b->ql[64 * h + 32 + i] = (uint8_t)((y[32] & 15) | (y[96] & 15) << 4);
            b->qh[32 * h + i]      = (uint8_t)(y[0] >> 4 | (y[32] >> 4) << 2 | (y[64] >> 4) << 4 | (y[96] >> 4) << 6);
        }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
/* Bits 2m and 2m + 1 of each byte, as bits 4 and 5: line m of the table at BlockQ6_K. */
INLINE __m256i fifth_sixth_bits(__m256i v, int m) {
    const __m256i moved = m < 2 ? _mm256_slli_epi16(v, 4 - 2 * m) : _mm256_srli_epi16(v, 2 * m - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(0x30));
}

INLINE void load_q6_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ6_K *block     = (const BlockQ6_K *)(const void *)p;
    const __m256i    ql        = load32(block->ql + 64 * (j / 2) + 32 * h);
    const __m256i    qh        = load32(block->qh + 32 * (j / 2));
    const __m256i    four_bits = j % 2 == 0 ? low_nibbles(ql) : high_nibbles(ql);
    q[0]                       = _mm256_or_si256(four_bits, fifth_sixth_bits(qh, j % 2 * 2 + h));
    q[1]                       = _mm256_setzero_si256();
}

/* The 16 signed scales of four rows, interleaved byte by byte so that the rows of a sub-block are neighbours. */
INLINE void header_q6_k(const char *const *p, Header *out) {
    out->d    = halves_of_rows(p, offsetof(BlockQ6_K, d));
    out->dmin = _mm256_setzero_ps();
    bytes_of_rows(p, offsetof(BlockQ6_K, scales), out->factor);
}

INLINE void scales_q6_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    out->scale =
        _mm256_mul_ps(header->d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes_of_pair(header->factor[j], h))));
    out->min = _mm256_setzero_ps();
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
/* The 16 scales are signed bytes of four words. */
INLINE void begin_q6_k(const SideRows *rows, Load *l) {
    __m256i words[4];
    words_of_rows(rows, offsetof(BlockQ6_K, scales), words);
    const __m256 d = _mm256_cvtph_ps(halves_of_rows(rows, offsetof(BlockQ6_K, d)));
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) {
        const __m256i up = _mm256_slli_epi32(words[u / 4], 24 - 8 * (u % 4));
        l->scale[u]      = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(up, 24)));
    }
}
/* Step 2h + i: elements 16i.. of half h, that is raw[0..3] = ql[64h + 16i], raw[4..7] = ql[64h + 32 + 16i],
 * raw[8..11] = qh[32h + 16i], 16 bytes each. Sub-blocks v = 0..3 are the four lines of the table at BlockQ6_K. */
INLINE void step_q6_k(const SideRows *rows, int step, Load *l) {
    const size_t h = (size_t)step / 2, i = (size_t)step % 2;
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 16 * i, l->raw);
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 32 + 16 * i, l->raw + 4);
    words_of_rows(rows, offsetof(BlockQ6_K, qh) + 32 * h + 16 * i, l->raw + 8);
}
INLINE __m256i quad_q6_k(const Load *l, int step, int v, int k) {
    const __m256i two = l->raw[8 + k], four = l->raw[v % 2 * 4 + k];
    const __m256i moved = v < 2 ? _mm256_slli_epi16(two, 4 - 2 * v) : _mm256_srli_epi16(two, 2 * v - 4);
    (void)step;
    return bits_and_all(moved, _mm256_set1_epi8(0x30), v < 2 ? low_nibbles(four) : high_nibbles(four));
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
/* Byte u of the lanes of sub-block u, shifted to the highest byte. */
INLINE __m512i sub_bytes_up(__m512i v) {
    return _mm512_sllv_epi32(v, _mm512_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16, 8, 8, 8, 8, 0, 0, 0, 0));
}

INLINE void scales_q6_k(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    const __m512i bytes = bytes_of_rows(row, at + offsetof(BlockQ6_K, scales));
    const __m512  scale = halves_of_rows(row, at + offsetof(BlockQ6_K, d));
    (void)n_subs;
    for (int h = 0; h < 4; h++) {
        const __m512i of_sub = _mm512_srai_epi32(sub_bytes_up(word_by_sub_and_row(bytes, h)), 24);
        out[h].scale         = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(of_sub));
    }
}

/* k-step j is sub-blocks 4j to 4j + 3: lines 0 and 1 of the table at BlockQ6_K for even j, 2 and 3 for odd j. Its
 * sub-blocks 0 and 1 are in the lower 32 bytes of ql, 2 and 3 in the upper. */
INLINE void load_q6_k(const char *p, int n_subs, Kstep *s) {
    (void)n_subs;
    const BlockQ6_K *block       = (const BlockQ6_K *)(const void *)p;
    const __m512i    fifth_sixth = _mm512_set1_epi8(0x30);
    for (int j = 0; j < 4; j++) {
        const int     h   = j / 2;
        const __m512i ql  = _mm512_loadu_si512(block->ql + 64 * h);
        const __m512i qh  = _mm512_broadcast_i64x4(load32(block->qh + 32 * h));
        const __m512i two = _mm512_and_si512(
            j % 2 ? _mm512_srlv_epi16(qh, words_twice(0, 2)) : _mm512_sllv_epi16(qh, words_twice(4, 2)), fifth_sixth);
        s[j].a = _mm512_or_si512(j % 2 ? high_nibbles(ql) : low_nibbles(ql), two);
        s[j].b = _mm512_setzero_si512();
    }
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
/* d is loaded as in half_scales: row r falls into lane r % 8. The 16 scales are signed bytes of four words. */
INLINE void begin_q6_k(const PanelRows *rows, int n_subs, Load *l) {
    __m512i words[4];
    __m128i half[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    (void)n_subs;
    words_of_rows(rows, offsetof(BlockQ6_K, scales), words);
#pragma GCC unroll 16
    for (int r = 0; r < RP_PANEL_ROWS; r++)
        half[r / 8] = _mm_mask_loadu_epi16(half[r / 8], (__mmask8)(1 << r % 8),
                                           row_at(rows, r) + offsetof(BlockQ6_K, d) - 2 * (size_t)(r % 8));
    const __m512 d = _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(half[0]), half[1], 1));
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) {
        const __m512i up   = _mm512_slli_epi32(words[u / 4], (unsigned)(24 - 8 * (u % 4)));
        const __m512i byte = _mm512_srai_epi32(u % 4 == 3 ? words[u / 4] : up, 24);
        l->scale[u]        = _mm512_mul_ps(d, _mm512_cvtepi32_ps(byte));
    }
}
/* Step 2h + i: elements 16i.. of half h, that is raw[0..3] = ql[64h + 16i], raw[4..7] = ql[64h + 32 + 16i],
 * raw[8..11] = qh[32h + 16i], 16 bytes each. Sub-blocks v = 0..3 are the four lines of the table at BlockQ6_K. */
INLINE void step_q6_k(const PanelRows *rows, int step, Load *l) {
    const size_t h = (size_t)step / 2, i = (size_t)step % 2;
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 16 * i, l->raw);
    words_of_rows(rows, offsetof(BlockQ6_K, ql) + 64 * h + 32 + 16 * i, l->raw + 4);
    words_of_rows(rows, offsetof(BlockQ6_K, qh) + 32 * h + 16 * i, l->raw + 8);
}
INLINE __m512i quad_q6_k(const Load *l, int step, int v, int k) {
    const __m512i two = l->raw[8 + k], four = l->raw[v % 2 * 4 + k];
    const __m512i moved = v == 0   ? _mm512_slli_epi16(two, 4)
                          : v == 1 ? _mm512_slli_epi16(two, 2)
                          : v == 2 ? two
                                   : _mm512_srli_epi16(two, 2);
    (void)step;
    return bits_and_all(moved, _mm512_set1_epi8(0x30), v < 2 ? low_nibbles(four) : high_nibbles(four));
}
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
enum { LEFT_q6_k = RP_Q6_K_OFFSET, STRIDED_q6_k = 1 };
INLINE void scales_q6_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)n_subs, (void)min;
    const BlockQ6_K  *block = (const BlockQ6_K *)(const void *)p;
    const float16x4_t half  = vreinterpret_f16_u16(vdup_n_u16(block->d));
    const int8x16_t   s     = vld1q_s8(block->scales);
    const int16x8_t   first = vmovl_s8(vget_low_s8(s)), second = vmovl_high_s8(s);
    const float32x4_t d = vcvt_f32_f16(half);
    scale[0]            = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(first))), d);
    scale[1]            = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(first)), d);
    scale[2]            = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(second))), d);
    scale[3]            = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(second)), d);
}
/* Quarter 2h + i: 16 elements of each line of the table at BlockQ6_K, from element 16i of half h on. */
INLINE void quarter_q6_k(const char *p, int quarter, int8x16_t *v) {
    const BlockQ6_K *block = (const BlockQ6_K *)(const void *)p;
    const uint8_t   *ql    = block->ql + 64 * (quarter / 2) + 16 * (quarter % 2);
    const uint8x16_t qh    = load16(block->qh + 32 * (quarter / 2) + 16 * (quarter % 2));
    nibbles(load16(ql), &v[0], &v[2]);
    nibbles(load16(ql + 32), &v[1], &v[3]);
    v[0] = with_bits(v[0], 0x30, vshlq_n_u8(qh, 4));
    v[1] = with_bits(v[1], 0x30, vshlq_n_u8(qh, 2));
    v[2] = with_bits(v[2], 0x30, qh);
    v[3] = with_bits(v[3], 0x30, vshrq_n_u8(qh, 2));
}
#endif
