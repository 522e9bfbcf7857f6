/* q2_k.h - Q2_K: x[i] = d * (s & 15) * q[i] - dmin * (s >> 4) with s = scales[i/16]. Elements 32u to 32u + 31 are bits
 * 2(u % 4) and 2(u % 4) + 1 of the 32 bytes qs[32(u / 4)..]. */
#ifndef FALLBACK_QUANTS_TYPES_Q2_K_H
#define FALLBACK_QUANTS_TYPES_Q2_K_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

typedef struct BlockQ2_K {
    uint8_t  scales[16], qs[64];
    uint16_t d, dmin;
} BlockQ2_K;

RP_BODY void expand_q2_k(const BlockQ2_K *b, int i, int8_t *v) {
    for (int k = 0; k < 32; k++) v[k] = (int8_t)(b->qs[i / 4 * 32 + k] >> (i % 4 * 2) & 3);
}

RP_BODY void sub_scales_q2_k(const BlockQ2_K *b, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d), minus = -rp_f16_to_f32(b->dmin);
    for (int u = 0; u < 16; u++) {
        scale[u] = d * (float)(b->scales[u] & 15);
        min[u]   = minus * (float)(b->scales[u] >> 4);
    }
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_q2_k_avx2(const BlockQ2_K *b, int part, __m256 *min) {
    const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->scales + 8 * part)));
    *min            = rp_times_f16_avx2(b->dmin, -1.0f, _mm256_srli_epi32(v, 4));
    return rp_times_f16_avx2(b->d, 1.0f, _mm256_and_si256(v, _mm256_set1_epi32(15)));
}

RP_TARGET_AVX2 RP_BODY __m256i expand_q2_k_avx2(const BlockQ2_K *b, int i) {
    const __m256i v = _mm256_loadu_si256((const void *)(b->qs + i / 4 * 32));
    return _mm256_and_si256(_mm256_srli_epi16(v, i % 4 * 2), _mm256_set1_epi8(3));
}
#endif
RP_EXPAND_NEON(Q2_K, q2_k)

/* q[i] = round((x[i] + m) / d) in 0..3, for 16 elements. Returns the squared error. */
static inline float rp_q2_levels(const float *x, const float *w, float d, float m, uint8_t *q) {
    const float id    = rp_inverse(d);
    float       error = 0.0f;
    for (int i = 0; i < 16; i++) {
        q[i]            = (uint8_t)rp_nearest((x[i] + m) * id, 0, 3);
        const float off = d * (float)q[i] - m - x[i];
        error += w[i] * off * off;
    }
    return error;
}

/* The scale and minimum of 4 bits with the smallest error, as the byte of BlockQ2_K.scales. */
static inline uint8_t rp_q2_choose(const float *x, const float *w, float d, float dmin) {
    float   best   = INFINITY;
    int     chosen = 0;
    uint8_t q[16];
    for (int s = 0; s < 256; s++) {
        const float error = rp_q2_levels(x, w, d * (float)(s & 15), dmin * (float)(s >> 4), q);
        if (error < best) best = error, chosen = s;
    }
    return (uint8_t)chosen;
}

static inline void quantize_q2_k(const float *x, const float *w, void *out) {
    BlockQ2_K *b = out;
    float      scale[16], min[16], top_scale = 0.0f, top_min = 0.0f;
    for (int u = 0; u < 16; u++) {
        rp_fit_affine(x + 16 * u, w + 16 * u, (AffineForm){.n = 16, .top = 3}, &scale[u], &min[u]);
        top_scale = scale[u] > top_scale ? scale[u] : top_scale;
        top_min   = min[u] > top_min ? min[u] : top_min;
    }
    memset(b, 0, sizeof *b);
    b->d          = rp_f32_to_f16(top_scale / 15.0f);
    b->dmin       = rp_f32_to_f16(top_min / 15.0f);
    const float d = rp_f16_to_f32(b->d), dmin = rp_f16_to_f32(b->dmin);
    for (int u = 0; u < 16; u++) {
        uint8_t   q[16];
        const int at = u / 8 * 32 + u % 2 * 16, shift = u / 2 % 4 * 2;
        b->scales[u] = rp_q2_choose(x + 16 * u, w + 16 * u, d, dmin);
        (void)rp_q2_levels(x + 16 * u, w + 16 * u, d * (float)(b->scales[u] & 15), dmin * (float)(b->scales[u] >> 4),
                           q);
        for (int k = 0; k < 16; k++) b->qs[at + k] = (uint8_t)(b->qs[at + k] | q[k] << shift);
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
enum { LEFT_q2_k = RP_Q2_K_OFFSET };

INLINE void header_q2_k(const char *const *p, Header *out) {
    const __m256 dmin = halves_of_rows(p, offsetof(BlockQ2_K, dmin));
    out->d            = halves_of_rows(p, offsetof(BlockQ2_K, d));
    out->dmin         = _mm256_xor_ps(dmin, _mm256_set1_ps(-0.0f));
    bytes_of_rows(p, offsetof(BlockQ2_K, scales), out->factor);
}

INLINE void scales_q2_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    const __m256i v = _mm256_cvtepu8_epi32(bytes_of_pair(header->factor[j], h));
    (void)p;
    out->scale = _mm256_mul_ps(header->d, _mm256_cvtepi32_ps(low_nibbles(v)));
    out->min   = _mm256_mul_ps(header->dmin, _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 4)));
}

INLINE void load_q2_k(const char *p, int j, int h, __m256i q[2]) {
    q[0] = expand_q2_k_avx2((const BlockQ2_K *)(const void *)p, 2 * j + h);
}

INLINE __m256i sums_q2_k(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_q2_k, SHORT, p, j, h, x, _mm256_setzero_si256());
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
enum { LEFT_q2_k = RP_Q2_K_OFFSET };

INLINE void scales_q2_k(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    const __m512i bytes = bytes_of_rows(row, at + offsetof(BlockQ2_K, scales)), four = _mm512_set1_epi32(15);
    const __m512  d     = halves_of_rows(row, at + offsetof(BlockQ2_K, d));
    const __m512  minus = _mm512_xor_ps(halves_of_rows(row, at + offsetof(BlockQ2_K, dmin)), _mm512_set1_ps(-0.0f));
    (void)n_subs;
    for (int j = 0; j < 4; j++) {
        const __m512i v     = word_by_sub_and_row(bytes, j);
        const __m512i scale = _mm512_and_si512(_mm512_srlv_epi32(v, bytes_down(0)), four);
        const __m512i min   = _mm512_and_si512(_mm512_srlv_epi32(v, bytes_down(4)), four);
        out[j].scale        = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scale));
        out[j].min          = _mm512_mul_ps(minus, _mm512_cvtepi32_ps(min));
    }
}

INLINE void load_q2_k(const char *p, int n_subs, Kstep *s) {
    const BlockQ2_K *b = (const BlockQ2_K *)(const void *)p;
    (void)n_subs;
    for (int j = 0; j < 4; j++) {
        const __m512i v = _mm512_broadcast_i64x4(load32(b->qs + j / 2 * 32));
        s[j].a = _mm512_and_si512(_mm512_srlv_epi16(v, words_twice(j % 2 * 4, j % 2 * 4 + 2)), _mm512_set1_epi8(3));
    }
}
#endif
