/* iq3.h - IQ3_XXS and IQ3_S: 4 elements are an entry of a codebook, with signs. s is a 4-bit scale of 32 elements.
 *
 *     IQ3_XXS   x[i] = d / 4 * (2 * s + 1) * value[i], values from 4 to 62
 *     IQ3_S     x[i] = d * (2 * s + 1) * value[i], odd values from 1 to 15 */
#ifndef FALLBACK_QUANTS_TYPES_IQ3_H
#define FALLBACK_QUANTS_TYPES_IQ3_H

#include "fallback/quants/codebook_fit.h"
#include "fallback/quants/expand.h"

/* 32 elements have eight bytes of indices and a word of signs[]: four times 7 bits of signs, and s in bits 28-31. */
typedef struct BlockIQ3_XXS {
    uint16_t d;
    uint8_t  qs[64], signs[32];
} BlockIQ3_XXS;

/* 32 elements have eight bytes of qs, one byte of qh with bit 8 of each index, four bytes of signs, and a nibble s. */
typedef struct BlockIQ3_S {
    uint16_t d;
    uint8_t  qs[64], qh[8], signs[32], scales[4];
} BlockIQ3_S;

/* Each finds the indices and the signs of 32 elements. */
RP_BODY uint32_t rp_iq3_xxs_at(const BlockIQ3_XXS *b, int i, int at[8]) {
    for (int k = 0; k < 8; k++) at[k] = b->qs[8 * i + k];
    return rp_even_signs_of_32(rp_word_at(b->signs + 4 * i));
}

RP_BODY uint32_t rp_iq3_s_at(const BlockIQ3_S *b, int i, int at[8]) {
    for (int k = 0; k < 8; k++) at[k] = b->qs[8 * i + k] | (b->qh[i] >> k & 1) << 8;
    return rp_word_at(b->signs + 4 * i);
}

#define RP_EXPAND_IQ3(ID, name)                                                                                        \
    RP_BODY void expand_##name(const Block##ID *b, int i, int8_t *v) {                                                 \
        int            at[8];                                                                                          \
        const uint32_t signs = rp_##name##_at(b, i, at);                                                               \
        for (int k = 0; k < 8; k++) memcpy(v + 4 * k, rp_codebook_##name + at[k], 4);                                  \
        rp_negate(v, signs);                                                                                           \
    }                                                                                                                  \
    RP_EXPAND_NEON(ID, name)
RP_EXPAND_IQ3(IQ3_XXS, iq3_xxs)
RP_EXPAND_IQ3(IQ3_S, iq3_s)
#undef RP_EXPAND_IQ3

#ifdef RP_X86
#define RP_EXPAND_IQ3(ID, name)                                                                                        \
    RP_TARGET_AVX2 RP_BODY __m256i expand_##name##_avx2(const Block##ID *b, int i) {                                   \
        int            at[8];                                                                                          \
        const uint32_t signs = rp_##name##_at(b, i, at);                                                               \
        return rp_negate_avx2(rp_take_eight_avx2(rp_codebook_##name, at), signs);                                      \
    }
RP_EXPAND_IQ3(IQ3_XXS, iq3_xxs)
RP_EXPAND_IQ3(IQ3_S, iq3_s)
#undef RP_EXPAND_IQ3
#endif

RP_BODY void sub_scales_iq3_xxs(const BlockIQ3_XXS *b, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d) / 4.0f;
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = d * (float)(2 * (b->signs[4 * u + 3] >> 4) + 1);
}

RP_BODY void sub_scales_iq3_s(const BlockIQ3_S *b, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d);
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = d * (float)(2 * (b->scales[u / 2] >> (u % 2 * 4) & 15) + 1);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq3_xxs_avx2(const BlockIQ3_XXS *b, int part, __m256 *min) {
    const __m256i words = _mm256_loadu_si256((const void *)b->signs);
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 0.25f, rp_odd_avx2(_mm256_srli_epi32(words, 28)));
}
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq3_s_avx2(const BlockIQ3_S *b, int part, __m256 *min) {
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 1.0f, rp_odd_avx2(rp_eight_nibbles_avx2(rp_word_at(b->scales))));
}
#endif

static inline void quantize_iq3_xxs(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq3_xxs, 256, 4, RP_EVEN_SIGNS, 32, 15, 0.25f};
    BlockIQ3_XXS             *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    for (int i = 0; i < 64; i++) b->qs[i] = (uint8_t)fit.index[i];
    for (int i = 0; i < 8; i++) {
        uint32_t word = (uint32_t)fit.s[i] << 28;
        for (int k = 0; k < 4; k++) word |= (uint32_t)(fit.signs[4 * i + k] & 127) << (7 * k);
        memcpy(b->signs + 4 * i, &word, sizeof word);
    }
}

static inline void quantize_iq3_s(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq3_s, 512, 4, RP_ANY_SIGNS, 32, 15, 1.0f};
    BlockIQ3_S               *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < 64; i++) {
        b->qs[i] = (uint8_t)fit.index[i];
        b->qh[i / 8] |= (uint8_t)(fit.index[i] >> 8 << i % 8);
    }
    memcpy(b->signs, fit.signs, sizeof b->signs);
    rp_put_nibble_pairs(fit.s, 4, b->scales);
}

#endif
