/* q1_0.h - Q1_0: x[i] = d where the bit of element i is set, else -d. */
#ifndef FALLBACK_QUANTS_TYPES_Q1_0_H
#define FALLBACK_QUANTS_TYPES_Q1_0_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* Two blocks of ggml, of 128 elements. The bit of element 8k + n of one is bit n of qs[k]. */
typedef struct BlockQ1_0 {
    struct {
        uint16_t d;
        uint8_t  qs[16];
    } of[2];
} BlockQ1_0;

RP_BODY void expand_q1_0(const BlockQ1_0 *b, int i, int8_t *v) {
    const uint32_t bits = rp_word_at(b->of[i / 4].qs + i % 4 * 4);
    for (int k = 0; k < 32; k++) v[k] = (int8_t)(2 * (bits >> k & 1) - 1);
}
RP_EXPAND_NEON(Q1_0, q1_0)

RP_BODY void sub_scales_q1_0(const BlockQ1_0 *b, float *scale, float *min) {
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = rp_f16_to_f32(b->of[u / 4].d);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i expand_q1_0_avx2(const BlockQ1_0 *b, int i) {
    /* 0 or -1, then 1 or -1 */
    const __m256i clear = rp_byte_mask_avx2(~rp_word_at(b->of[i / 4].qs + i % 4 * 4));
    return _mm256_or_si256(clear, _mm256_set1_epi8(1));
}

RP_TARGET_AVX2 RP_BODY __m256 sub_scales_q1_0_avx2(const BlockQ1_0 *b, int part, __m256 *min) {
    const __m128 d = _mm_cvtph_ps(_mm_cvtsi32_si128(b->of[0].d | b->of[1].d << 16));
    (void)part, (void)min;
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(d), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}
#endif

/* d with the smallest squared error is the mean magnitude. As ggml, it takes all elements to be as important. */
static inline void quantize_q1_0(const float *x, const float *w, void *out) {
    BlockQ1_0 *b = out;
    (void)w;
    memset(b, 0, sizeof *b);
    for (int h = 0; h < 2; h++) {
        float sum = 0.0f;
        for (int i = 0; i < 128; i++) {
            const float v = x[128 * h + i];
            sum += fabsf(v);
            b->of[h].qs[i / 8] = (uint8_t)(b->of[h].qs[i / 8] | (v >= 0.0f) << i % 8);
        }
        b->of[h].d = rp_f32_to_f16(sum / 128.0f);
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
ROW_SCALES(Q1_0, q1_0)
enum { LEFT_q1_0 = 1 };
INLINE void header_q1_0(const char *const *p, Header *out) { scales_of_rows_q1_0(p, out); }

/* 2 or 0. */
INLINE void load_q1_0(const char *p, int j, int h, __m256i q[2]) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i of  = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0404040404040404, 0x0505050505050505);
    int64_t       bits;
    memcpy(&bits, ((const BlockQ1_0 *)(const void *)p)->of[j].qs + 8 * h, sizeof bits);
    for (int k = 0; k < 2; k++) {
        const __m256i at = _mm256_add_epi8(of, _mm256_set1_epi8((char)(2 * k)));
        const __m256i v  = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi64x(bits), at), bit);
        q[k]             = _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(2));
    }
}

INLINE __m256i sums_q1_0(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_q1_0, HALVES, p, j, h, x, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(Q1_0, q1_0)
enum { LEFT_q1_0 = 1 };

/* Quants are 2 or 0. The low 16 bits of each word go to a, the high ones to b. */
INLINE void load_q1_0(const char *p, int n_subs, Kstep *s) {
    const BlockQ1_0 *b  = (const BlockQ1_0 *)(const void *)p;
    const __m128i    of = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    (void)n_subs;
    for (int j = 0; j < 2; j++) {
        const __m128i bits = _mm_shuffle_epi8(load16(b->of[j].qs), of);
        s[j].a             = _mm512_maskz_set1_epi8((uint64_t)_mm_cvtsi128_si64(bits), 2);
        s[j].b             = _mm512_maskz_set1_epi8((uint64_t)_mm_extract_epi64(bits, 1), 2);
    }
}
#endif
