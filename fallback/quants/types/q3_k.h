/* q3_k.h - Q3_K: x[i] = d * (scale[i/16] - 32) * (q[i] - 4), scales of 6 bits. Elements 32u to 32u + 31 have the
 * low bits of q in bits 2(u % 4) and 2(u % 4) + 1 of the 32 bytes qs[32(u / 4)..], the third bit in bit u of the
 * bytes hmask[]. */
#ifndef FALLBACK_QUANTS_TYPES_Q3_K_H
#define FALLBACK_QUANTS_TYPES_Q3_K_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* Bits 0-3 of scale u are in nibble u / 8 of scales[u % 8], bits 4-5 in bits 2(u / 4) and 2(u / 4) + 1 of
 * scales[8 + u % 4]. */
typedef struct BlockQ3_K {
    uint8_t  hmask[32], qs[64], scales[12];
    uint16_t d;
} BlockQ3_K;

RP_BODY void expand_q3_k(const BlockQ3_K *b, int i, int8_t *v) {
    for (int k = 0; k < 32; k++) {
        const int low = b->qs[i / 4 * 32 + k] >> (i % 4 * 2) & 3, high = b->hmask[k] >> i & 1;
        v[k] = (int8_t)((low | high << 2) - 4);
    }
}

RP_BODY uint16_t factors_q3_k(const BlockQ3_K *b, int8_t *s) {
    for (int u = 0; u < 16; u++) {
        const int low = b->scales[u % 8] >> (u / 8 * 4) & 15, high = b->scales[8 + u % 4] >> (u / 4 * 2) & 3;
        s[u] = (int8_t)((low | high << 4) - 32);
    }
    return b->d;
}
RP_FEW_VALUES(Q3_K, q3_k, 1.0f, 4, 0, -4, -3, -2, -1, 0, 1, 2, 3)

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_q3_k_avx2(const BlockQ3_K *b, int part, __m256 *min) {
    const __m128i low  = _mm_srli_epi16(_mm_loadl_epi64((const void *)b->scales), 4 * part); /* nibble 0 of each byte */
    const __m128i word = _mm_set1_epi32((int)rp_word_at(b->scales + 8));
    const __m128i high = _mm_srlv_epi32(word, _mm_setr_epi32(4 * part, 4 * part + 2, 0, 0)); /* bits 0-1 of each byte */
    const __m128i six =
        _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4));
    (void)min;
    return rp_times_f16_avx2(b->d, 1.0f, _mm256_cvtepi8_epi32(_mm_sub_epi8(six, _mm_set1_epi8(32))));
}

RP_TARGET_AVX2 RP_BODY __m256i expand_q3_k_avx2(const BlockQ3_K *b, int i) {
    const __m256i v    = _mm256_loadu_si256((const void *)(b->qs + i / 4 * 32));
    const __m256i low  = _mm256_and_si256(_mm256_srli_epi16(v, i % 4 * 2), _mm256_set1_epi8(3));
    const __m256i bit  = _mm256_set1_epi8((char)(1 << i));
    const __m256i high = _mm256_and_si256(_mm256_loadu_si256((const void *)b->hmask), bit);
    /* -4 where the bit is 0 */
    return _mm256_or_si256(low,
                           _mm256_and_si256(_mm256_cmpeq_epi8(high, _mm256_setzero_si256()), _mm256_set1_epi8(-4)));
}
#endif
RP_EXPAND_NEON(Q3_K, q3_k)

/* q[i] = round(x[i] / d) in -4..3, for 16 elements. Returns the squared error. */
static inline float rp_q3_levels(const float *x, const float *w, float d, int *q) {
    const float id    = rp_inverse(d);
    float       error = 0.0f;
    for (int i = 0; i < 16; i++) {
        q[i]            = rp_nearest(x[i] * id, -4, 3);
        const float off = d * (float)q[i] - x[i];
        error += w[i] * off * off;
    }
    return error;
}

static inline void quantize_q3_k(const float *x, const float *w, void *out) {
    BlockQ3_K *b = out;
    float      scale[16];
    for (int u = 0; u < 16; u++) scale[u] = rp_fit_symmetric(x + 16 * u, w + 16 * u, 16, 4);
    memset(b, 0, sizeof *b);
    b->d          = rp_f32_to_f16(rp_largest(scale, 16) / -32.0f);
    const float d = rp_f16_to_f32(b->d);
    for (int u = 0; u < 16; u++) {
        const int at = u / 8 * 32 + u % 2 * 16, shift = u / 2 % 4 * 2;
        float     best   = INFINITY;
        int       chosen = 0, q[16];
        for (int s = -32; s < 32; s++) {
            const float error = rp_q3_levels(x + 16 * u, w + 16 * u, d * (float)s, q);
            if (error < best) best = error, chosen = s;
        }
        (void)rp_q3_levels(x + 16 * u, w + 16 * u, d * (float)chosen, q);
        for (int k = 0; k < 16; k++) {
            const int level = q[k] + 4, high = u % 2 * 16 + k;
            b->qs[at + k]  = (uint8_t)(b->qs[at + k] | (level & 3) << shift);
            b->hmask[high] = (uint8_t)(b->hmask[high] | level >> 2 << (u / 2));
        }
        b->scales[u % 8]     = (uint8_t)(b->scales[u % 8] | ((chosen + 32) & 15) << (u / 8 * 4));
        b->scales[8 + u % 4] = (uint8_t)(b->scales[8 + u % 4] | (chosen + 32) >> 4 << (u / 4 * 2));
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
enum { LEFT_q3_k = 4 };

/* Bytes 4r + u of four rows' words become bytes 4u + r. */
INLINE void header_q3_k(const char *const *p, Header *out) {
    const size_t  at    = offsetof(BlockQ3_K, scales);
    const __m128i low[] = {words32(p, at), words32(p, at + 4)}, high = words32(p, at + 8);
    const __m128i by_subs = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int j = 0; j < 4; j++) {
        const __m128i four = _mm_and_si128(_mm_srli_epi16(low[j % 2], j / 2 * 4), _mm_set1_epi8(15));
        const __m128i two  = _mm_and_si128(_mm_srli_epi16(high, 2 * j), _mm_set1_epi8(3));
        const __m128i six  = _mm_or_si128(four, _mm_slli_epi16(two, 4));
        out->factor[j]     = _mm_shuffle_epi8(_mm_sub_epi8(six, _mm_set1_epi8(32)), by_subs);
    }
    out->d = halves_of_rows(p, offsetof(BlockQ3_K, d));
}

INLINE void scales_q3_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    out->scale =
        _mm256_mul_ps(header->d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes_of_pair(header->factor[j], h))));
    out->min = _mm256_setzero_ps();
}

/* q from 0 to 7. */
INLINE void load_q3_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ3_K *b    = (const BlockQ3_K *)(const void *)p;
    const int        i    = 2 * j + h;
    const __m256i    bits = load32(b->hmask), v = load32(b->qs + i / 4 * 32);
    const __m256i    high = i < 2 ? _mm256_slli_epi16(bits, 2 - i) : _mm256_srli_epi16(bits, i - 2);
    const __m256i    low  = _mm256_and_si256(_mm256_srli_epi16(v, i % 4 * 2), _mm256_set1_epi8(3));
    q[0]                  = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(4)));
}

INLINE __m256i sums_q3_k(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_q3_k, SHORT, p, j, h, x, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
enum { LEFT_q3_k = 4 };

/* The scales are three words, bytes 2 to 13 of the last 16 bytes of a block; d follows. */
INLINE void scales_q3_k(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    const __m512i words = _mm512_bsrli_epi128(bytes_of_rows(row, at + offsetof(BlockQ3_K, scales) - 2), 2);
    const __m512i high  = word_by_sub_and_row(words, 2);
    const __m512  d     = halves_of_rows(row, at + offsetof(BlockQ3_K, d));
    (void)n_subs;
    for (int j = 0; j < 4; j++) {
        const __m512i low  = word_by_sub_and_row(words, j % 2);
        const __m512i four = _mm512_and_si512(_mm512_srlv_epi32(low, bytes_down(j / 2 * 4)), _mm512_set1_epi32(15));
        const __m512i two  = _mm512_and_si512(_mm512_srlv_epi32(high, bytes_down(2 * j)), _mm512_set1_epi32(3));
        const __m512i six  = _mm512_or_si512(four, _mm512_slli_epi32(two, 4));
        out[j].scale       = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_sub_epi32(six, _mm512_set1_epi32(32))));
    }
}

/* q from 0 to 7. */
INLINE void load_q3_k(const char *p, int n_subs, Kstep *s) {
    const BlockQ3_K *b    = (const BlockQ3_K *)(const void *)p;
    const __m512i    bits = _mm512_broadcast_i64x4(load32(b->hmask));
    (void)n_subs;
    for (int j = 0; j < 4; j++) {
        const __m512i v = _mm512_broadcast_i64x4(load32(b->qs + j / 2 * 32));
        const __m512i low =
            _mm512_and_si512(_mm512_srlv_epi16(v, words_twice(j % 2 * 4, j % 2 * 4 + 2)), _mm512_set1_epi8(3));
        const __m512i third = j == 0 ? _mm512_sllv_epi16(bits, words_twice(2, 1))
                                     : _mm512_srlv_epi16(bits, words_twice(2 * j - 2, 2 * j - 1));
        s[j].a              = _mm512_or_si512(low, _mm512_and_si512(third, _mm512_set1_epi8(4)));
    }
}
#endif
