/* nvfp4.h - NVFP4: x[i] = scale[i/16] * value[q[i]], the 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives (OCP
 * Microscaling 1.0), with scales that are unsigned 8-bit floats of 4 exponent and 3 mantissa bits. */
#ifndef FALLBACK_QUANTS_TYPES_NVFP4_H
#define FALLBACK_QUANTS_TYPES_NVFP4_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* Four blocks of ggml, of 64 elements in four sub-blocks of 16. Byte 8s + k of qs has elements k and 8 + k of sub-block
 * s in its low and its high nibble. */
typedef struct BlockNVFP4 {
    struct {
        uint8_t d[4], qs[32];
    } of[4];
} BlockNVFP4;

/* The floats, doubled to be integers. */
static const int8_t rp_nvfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

RP_BODY void expand_nvfp4(const BlockNVFP4 *b, int i, int8_t *v) {
    const uint8_t *qs = b->of[i / 2].qs + i % 2 * 16;
    for (int k = 0; k < 8; k++) {
        v[k]      = rp_nvfp4_values[qs[k] & 15];
        v[8 + k]  = rp_nvfp4_values[qs[k] >> 4];
        v[16 + k] = rp_nvfp4_values[qs[8 + k] & 15];
        v[24 + k] = rp_nvfp4_values[qs[8 + k] >> 4];
    }
}
RP_EXPAND_NEON(NVFP4, nvfp4)

/* 1024 times half the scale: mantissa and exponent as ggml reads them. Bit 7 means nothing, 127 stands for 0. */
RP_BODY int32_t rp_nvfp4_fixed(uint8_t d) {
    const int exponent = d >> 3 & 15, mantissa = d & 7;
    if (d == 127) return 0;
    return exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
}

RP_BODY float rp_nvfp4_scale(uint8_t d) { return (float)rp_nvfp4_fixed(d) * 0x1p-10f; }

RP_BODY void sub_scales_nvfp4(const BlockNVFP4 *b, float *scale, float *min) {
    (void)min;
    for (int u = 0; u < 16; u++) scale[u] = rp_nvfp4_scale(b->of[u / 4].d[u % 4]);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i expand_nvfp4_avx2(const BlockNVFP4 *b, int i) {
    const __m256i nibbles = rp_nibbles_avx2(b->of[i / 2].qs + i % 2 * 16);
    /* the low nibbles of both sub-blocks, then the high ones: each sub-block has 8 of both */
    return rp_lookup_avx2(rp_nvfp4_values, _mm256_permute4x64_epi64(nibbles, 0xd8));
}

RP_TARGET_AVX2 RP_BODY __m256 sub_scales_nvfp4_avx2(const BlockNVFP4 *b, int part, __m256 *min) {
    const uint32_t first = rp_word_at(b->of[2 * part].d), second = rp_word_at(b->of[2 * part + 1].d);
    const __m256i  d        = _mm256_cvtepu8_epi32(_mm_setr_epi32((int)first, (int)second, 0, 0));
    const __m256i  exponent = _mm256_and_si256(_mm256_srli_epi32(d, 3), _mm256_set1_epi32(15));
    const __m256i  mantissa = _mm256_and_si256(d, _mm256_set1_epi32(7));
    const __m256i  normal   = _mm256_cmpgt_epi32(exponent, _mm256_setzero_si256());
    const __m256i  eight    = _mm256_and_si256(normal, _mm256_set1_epi32(8));
    const __m256i  by       = _mm256_add_epi32(exponent, normal); /* exponent - 1, of subnormal ones 0 */
    const __m256i  fixed    = _mm256_sllv_epi32(_mm256_or_si256(mantissa, eight), by);
    const __m256i  none     = _mm256_cmpeq_epi32(d, _mm256_set1_epi32(127));
    (void)min;
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_andnot_si256(none, fixed)), _mm256_set1_ps(0x1p-10f));
}
#endif

/* q[i] is the index of the value nearest to x[i] / d, of 16 elements. Returns the weighted squared error. */
static inline float rp_nvfp4_nearest(const float *x, const float *w, float d, uint8_t *q) {
    const float id    = rp_inverse(d);
    float       error = 0.0f;
    for (int i = 0; i < 16; i++) {
        const float v = fabsf(x[i]) * id;
        int         n = 0;
        for (int k = 0; k < 7; k++) n += v > 0.5f * (float)(rp_nvfp4_values[k] + rp_nvfp4_values[k + 1]);
        const float left = d * (float)rp_nvfp4_values[n] - fabsf(x[i]);
        q[i]             = (uint8_t)(x[i] < 0.0f ? 8 | n : n);
        error += w[i] * left * left;
    }
    return error;
}

/* The scale with the smallest error. The scales that take the largest element to 3 or to more, up to 8, are tried:
 * scales grow with their number. */
static inline uint8_t rp_nvfp4_fit(const float *x, const float *w, uint8_t *q) {
    const float top    = fabsf(rp_largest(x, 16));
    float       best   = INFINITY;
    int         chosen = 0;
    for (int d = 0; d < 127; d++) {
        const float scale = rp_nvfp4_scale((uint8_t)d);
        if (d > 0 && d < 126 && (16.0f * scale < top || 6.0f * scale > top)) continue;
        const float error = rp_nvfp4_nearest(x, w, scale, q);
        if (error < best) best = error, chosen = d;
    }
    (void)rp_nvfp4_nearest(x, w, rp_nvfp4_scale((uint8_t)chosen), q);
    return (uint8_t)chosen;
}

static inline void quantize_nvfp4(const float *x, const float *w, void *out) {
    BlockNVFP4 *b = out;
    for (int u = 0; u < 16; u++) {
        uint8_t q[16];
        b->of[u / 4].d[u % 4] = rp_nvfp4_fit(x + 16 * u, w + 16 * u, q);
        rp_put_nibbles(q, 8, b->of[u / 4].qs + u % 4 * 8);
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
ROW_SCALES(NVFP4, nvfp4)
enum { LEFT_nvfp4 = 12 };
INLINE void header_nvfp4(const char *const *p, Header *out) { scales_of_rows_nvfp4(p, out); }

/* The values of expand_nvfp4_avx2, raised by 12. */
INLINE void load_nvfp4(const char *p, int j, int h, __m256i q[2]) {
    const BlockNVFP4 *b = (const BlockNVFP4 *)(const void *)p;
    const __m256i     values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    q[0] = _mm256_shuffle_epi8(values, _mm256_permute4x64_epi64(rp_nibbles_avx2(b->of[j].qs + 16 * h), 0xd8));
}

INLINE __m256i sums_nvfp4(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_nvfp4, SHORT, p, j, h, x, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(NVFP4, nvfp4)
enum { LEFT_nvfp4 = 12 };

/* 8 bytes have the sub-block's first 8 elements in the low nibbles, the others in the high ones. The values of
 * expand_nvfp4_avx2, raised by 12. */
INLINE void load_nvfp4(const char *p, int n_subs, Kstep *s) {
    const BlockNVFP4 *b = (const BlockNVFP4 *)(const void *)p;
    const __m512i     values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    (void)n_subs;
    for (int j = 0; j < 4; j++) {
        const __m512i eight = _mm512_castsi256_si512(load32(b->of[j].qs));
        const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), eight);
        const __m512i v     = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4));
        s[j].a              = _mm512_shuffle_epi8(values, low_nibbles(v));
    }
}
#endif
