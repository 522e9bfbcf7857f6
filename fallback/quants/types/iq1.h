/* iq1.h - IQ1_S and IQ1_M: 8 elements are an entry of a codebook, whose values are -1, 0 and 1, with an offset of
 * 1/8 or -1/8.
 *
 *     x[i] = d * (2 * s + 1) * (value[i] + offset) = d / 8 * (2 * s + 1) * (8 * value[i] + 8 * offset)
 *
 * The integer form is the second one. s has 3 bits: of 32 elements in IQ1_S, of 16 in IQ1_M. */
#ifndef FALLBACK_QUANTS_TYPES_IQ1_H
#define FALLBACK_QUANTS_TYPES_IQ1_H

#include "fallback/quants/codebook_fit.h"
#include "fallback/quants/expand.h"

/* 32 elements have four bytes of qs and a word of qh. The word has bits 8-10 of the four indices, s in bits 12-14, and
 * bit 15, which is set for an offset of -1/8. */
typedef struct BlockIQ1_S {
    uint16_t d;
    uint8_t  qs[32];
    uint16_t qh[8];
} BlockIQ1_S;

/* 32 elements have four bytes of qs and two bytes of qh. 8 elements have a nibble of qh: bits 8-10 of the index, and
 * bit 3, which is set for an offset of -1/8. scales[] has words of 16 bits with four s of 3 bits each. Bits 12-15 of
 * these words are the nibbles of d, an f16. */
typedef struct BlockIQ1_M {
    uint8_t qs[32], qh[16], scales[8];
} BlockIQ1_M;

/* Each finds the indices of 32 elements and the groups of 8 with an offset of -1/8, as bits 0-3. */
RP_BODY int rp_iq1_s_at(const BlockIQ1_S *b, int i, int at[4]) {
    for (int k = 0; k < 4; k++) at[k] = b->qs[4 * i + k] | (b->qh[i] >> (3 * k) & 7) << 8;
    return b->qh[i] >> 15 != 0 ? 15 : 0;
}

RP_BODY int rp_iq1_m_at(const BlockIQ1_M *b, int i, int at[4]) {
    int minus = 0;
    for (int k = 0; k < 4; k++) {
        const int nibble = b->qh[2 * i + k / 2] >> (k % 2 * 4) & 15;
        at[k]            = b->qs[4 * i + k] | (nibble & 7) << 8;
        minus |= nibble >> 3 << k;
    }
    return minus;
}

#define RP_EXPAND_IQ1(ID, name)                                                                                        \
    RP_BODY void expand_##name(const Block##ID *b, int i, int8_t *v) {                                                 \
        int       at[4];                                                                                               \
        const int minus = rp_##name##_at(b, i, at);                                                                    \
        rp_take_four(rp_codebook_iq1, at, v);                                                                          \
        for (int k = 0; k < 32; k++) v[k] = (int8_t)(v[k] + 1 - 2 * (minus >> (k / 8) & 1));                           \
    }                                                                                                                  \
    RP_EXPAND_NEON(ID, name)
RP_EXPAND_IQ1(IQ1_S, iq1_s)
RP_EXPAND_IQ1(IQ1_M, iq1_m)
#undef RP_EXPAND_IQ1

#ifdef RP_X86
/* -1 is 1 | -2 */
#define RP_EXPAND_IQ1(ID, name)                                                                                        \
    RP_TARGET_AVX2 RP_BODY __m256i expand_##name##_avx2(const Block##ID *b, int i) {                                   \
        int           at[4];                                                                                           \
        const __m256i bit  = _mm256_setr_epi64x(1, 2, 4, 8);                                                           \
        const __m256i bits = _mm256_and_si256(_mm256_set1_epi64x(rp_##name##_at(b, i, at)), bit);                      \
        const __m256i mask = _mm256_cmpeq_epi64(bits, bit);                                                            \
        const __m256i add  = _mm256_or_si256(mask, _mm256_set1_epi8(1));                                               \
        return _mm256_add_epi8(rp_take_four_avx2(rp_codebook_iq1, at), add);                                           \
    }
RP_EXPAND_IQ1(IQ1_S, iq1_s)
RP_EXPAND_IQ1(IQ1_M, iq1_m)
#undef RP_EXPAND_IQ1
#endif

RP_BODY void sub_scales_iq1_s(const BlockIQ1_S *b, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d) / 8.0f;
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = d * (float)(2 * (b->qh[u] >> 12 & 7) + 1);
}

/* The scale d of the block. */
RP_BODY uint16_t rp_iq1_m_half(const BlockIQ1_M *b) {
    uint64_t words;
    memcpy(&words, b->scales, sizeof words);
    return (uint16_t)((words >> 12 & 15) | (words >> 24 & 0xf0) | (words >> 36 & 0xf00) | (words >> 48 & 0xf000));
}

RP_BODY void sub_scales_iq1_m(const BlockIQ1_M *b, float *scale, float *min) {
    uint16_t words[4];
    (void)min;
    memcpy(words, b->scales, sizeof words);
    const float d = rp_f16_to_f32(rp_iq1_m_half(b)) / 8.0f;
    for (int u = 0; u < 16; u++) scale[u] = d * (float)(2 * (words[u / 4] >> (u % 4 * 3) & 7) + 1);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq1_s_avx2(const BlockIQ1_S *b, int part, __m256 *min) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)b->qh));
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 0.125f,
                             rp_odd_avx2(_mm256_and_si256(_mm256_srli_epi32(words, 12), _mm256_set1_epi32(7))));
}
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq1_m_avx2(const BlockIQ1_M *b, int part, __m256 *min) {
    const __m256i by = _mm256_setr_epi32(0, 3, 6, 9, 16, 19, 22, 25); /* of two words of 16 bits */
    const __m256i v  = _mm256_srlv_epi32(_mm256_set1_epi32((int)rp_word_at(b->scales + 4 * part)), by);
    (void)min;
    return rp_times_f16_avx2(rp_iq1_m_half(b), 0.125f, rp_odd_avx2(_mm256_and_si256(v, _mm256_set1_epi32(7))));
}
#endif

static inline void quantize_iq1_s(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq1, 2048, 8, RP_OFFSET_OF_SUB, 32, 7, 0.125f};
    BlockIQ1_S               *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    for (int i = 0; i < 8; i++) b->qh[i] = (uint16_t)(fit.s[i] << 12 | (fit.signs[4 * i] != 0) << 15);
    for (int i = 0; i < 32; i++) {
        b->qs[i] = (uint8_t)fit.index[i];
        b->qh[i / 4] |= (uint16_t)(fit.index[i] >> 8 << (i % 4 * 3));
    }
}

static inline void quantize_iq1_m(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq1, 2048, 8, RP_OFFSET_OF_ENTRY, 16, 7, 0.125f};
    BlockIQ1_M               *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < 32; i++) {
        b->qs[i] = (uint8_t)fit.index[i];
        b->qh[i / 2] |= (uint8_t)((fit.index[i] >> 8 | (fit.signs[i] != 0) << 3) << (i % 2 * 4));
    }
    for (int i = 0; i < 4; i++) {
        uint16_t word = (uint16_t)((fit.d >> (4 * i) & 15) << 12);
        for (int k = 0; k < 4; k++) word |= (uint16_t)(fit.s[4 * i + k] << (3 * k));
        memcpy(b->scales + 2 * i, &word, sizeof word);
    }
}

#endif
