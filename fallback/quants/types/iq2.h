/* iq2.h - IQ2_XXS, IQ2_XS and IQ2_S: 8 elements are an entry of a codebook, whose values are 8, 25 and 43, with signs.
 *
 *     x[i] = d / 8 * (2 * s + 1) * value[i], s the 4-bit scale of 32 elements, in IQ2_XS and IQ2_S of 16 */
#ifndef FALLBACK_QUANTS_TYPES_IQ2_H
#define FALLBACK_QUANTS_TYPES_IQ2_H

#include "fallback/quants/codebook_fit.h"
#include "fallback/quants/expand.h"

/* 32 elements have four bytes of indices, then a word with four times 7 bits of signs and s in bits 28-31. */
typedef struct BlockIQ2_XXS {
    uint16_t d;
    uint8_t  qs[64];
} BlockIQ2_XXS;

/* 32 elements have four words of 16 bits, each with an index of 9 bits and 7 bits of signs. A byte of scales[] has s of
 * the first 16 elements in its low nibble and s of the second 16 in its high nibble. */
typedef struct BlockIQ2_XS {
    uint16_t d;
    uint8_t  qs[64], scales[8];
} BlockIQ2_XS;

/* 32 elements have four bytes of qs, one byte of qh with bits 8-9 of the four indices, and four bytes of signs.
 * scales[] is as in IQ2_XS. */
typedef struct BlockIQ2_S {
    uint16_t d;
    uint8_t  qs[32], signs[32], qh[8], scales[8];
} BlockIQ2_S;

/* Each finds the indices and the signs of 32 elements. */
RP_BODY uint32_t rp_iq2_xxs_at(const BlockIQ2_XXS *b, int i, int at[4]) {
    for (int k = 0; k < 4; k++) at[k] = b->qs[8 * i + k];
    return rp_even_signs_of_32(rp_word_at(b->qs + 8 * i + 4));
}

RP_BODY uint32_t rp_iq2_xs_at(const BlockIQ2_XS *b, int i, int at[4]) {
    uint32_t signs = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t word = (uint32_t)b->qs[8 * i + 2 * k] | (uint32_t)b->qs[8 * i + 2 * k + 1] << 8;
        at[k]               = (int)(word & 511);
        signs |= rp_even_signs(word >> 9) << (8 * k);
    }
    return signs;
}

RP_BODY uint32_t rp_iq2_s_at(const BlockIQ2_S *b, int i, int at[4]) {
    for (int k = 0; k < 4; k++) at[k] = b->qs[4 * i + k] | (b->qh[i] >> (2 * k) & 3) << 8;
    return rp_word_at(b->signs + 4 * i);
}

#define RP_EXPAND_IQ2(ID, name)                                                                                        \
    RP_BODY void expand_##name(const Block##ID *b, int i, int8_t *v) {                                                 \
        int            at[4];                                                                                          \
        const uint32_t signs = rp_##name##_at(b, i, at);                                                               \
        rp_take_four(rp_codebook_##name, at, v);                                                                       \
        rp_negate(v, signs);                                                                                           \
    }                                                                                                                  \
    RP_EXPAND_NEON(ID, name)
RP_EXPAND_IQ2(IQ2_XXS, iq2_xxs)
RP_EXPAND_IQ2(IQ2_XS, iq2_xs)
RP_EXPAND_IQ2(IQ2_S, iq2_s)
#undef RP_EXPAND_IQ2

#ifdef RP_X86
#define RP_EXPAND_IQ2(ID, name)                                                                                        \
    RP_TARGET_AVX2 RP_BODY __m256i expand_##name##_avx2(const Block##ID *b, int i) {                                   \
        int            at[4];                                                                                          \
        const uint32_t signs = rp_##name##_at(b, i, at);                                                               \
        return rp_negate_avx2(rp_take_four_avx2(rp_codebook_##name, at), signs);                                       \
    }
RP_EXPAND_IQ2(IQ2_XXS, iq2_xxs)
RP_EXPAND_IQ2(IQ2_XS, iq2_xs)
RP_EXPAND_IQ2(IQ2_S, iq2_s)
#undef RP_EXPAND_IQ2
#endif

RP_BODY void sub_scales_iq2_xxs(const BlockIQ2_XXS *b, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d) / 8.0f;
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = d * (float)(2 * (b->qs[8 * u + 7] >> 4) + 1);
}

RP_BODY void rp_iq2_nibbles(uint16_t d16, const uint8_t *scales, float *scale) {
    const float d = rp_f16_to_f32(d16) / 8.0f;
    for (int u = 0; u < 16; u++) scale[u] = d * (float)(2 * (scales[u / 2] >> (u % 2 * 4) & 15) + 1);
}
RP_BODY void sub_scales_iq2_xs(const BlockIQ2_XS *b, float *scale, float *min) {
    (void)min, rp_iq2_nibbles(b->d, b->scales, scale);
}
RP_BODY void sub_scales_iq2_s(const BlockIQ2_S *b, float *scale, float *min) {
    (void)min, rp_iq2_nibbles(b->d, b->scales, scale);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq2_xxs_avx2(const BlockIQ2_XXS *b, int part, __m256 *min) {
    const __m256 low = _mm256_loadu_ps((const void *)b->qs), high = _mm256_loadu_ps((const void *)(b->qs + 32));
    /* the odd words of both, as 0 1 4 5 2 3 6 7 */
    const __m256i odd   = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));
    const __m256i words = _mm256_permute4x64_epi64(odd, 0xd8);
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 0.125f, rp_odd_avx2(_mm256_srli_epi32(words, 28)));
}
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq2_xs_avx2(const BlockIQ2_XS *b, int part, __m256 *min) {
    (void)min;
    return rp_times_f16_avx2(b->d, 0.125f, rp_odd_avx2(rp_eight_nibbles_avx2(rp_word_at(b->scales + 4 * part))));
}
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq2_s_avx2(const BlockIQ2_S *b, int part, __m256 *min) {
    (void)min;
    return rp_times_f16_avx2(b->d, 0.125f, rp_odd_avx2(rp_eight_nibbles_avx2(rp_word_at(b->scales + 4 * part))));
}
#endif

static inline void quantize_iq2_xxs(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq2_xxs, 256, 8, RP_EVEN_SIGNS, 32, 15, 0.125f};
    BlockIQ2_XXS             *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    for (int i = 0; i < 8; i++) {
        uint32_t word = (uint32_t)fit.s[i] << 28;
        for (int k = 0; k < 4; k++) {
            b->qs[8 * i + k] = (uint8_t)fit.index[4 * i + k];
            word |= (uint32_t)(fit.signs[4 * i + k] & 127) << (7 * k);
        }
        memcpy(b->qs + 8 * i + 4, &word, sizeof word);
    }
}

static inline void quantize_iq2_xs(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq2_xs, 512, 8, RP_EVEN_SIGNS, 16, 15, 0.125f};
    BlockIQ2_XS              *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    for (int i = 0; i < 32; i++) {
        b->qs[2 * i]     = (uint8_t)fit.index[i];
        b->qs[2 * i + 1] = (uint8_t)(fit.index[i] >> 8 | (fit.signs[i] & 127) << 1);
    }
    rp_put_nibble_pairs(fit.s, 8, b->scales);
}

static inline void quantize_iq2_s(const float *x, const float *w, void *out) {
    static const CodebookForm form = {rp_codebook_iq2_s, 1024, 8, RP_ANY_SIGNS, 16, 15, 0.125f};
    BlockIQ2_S               *b    = out;
    CodebookFit               fit;
    rp_fit_codebook(&form, x, w, &fit);
    b->d = fit.d;
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < 32; i++) {
        b->qs[i] = (uint8_t)fit.index[i];
        b->qh[i / 4] |= (uint8_t)(fit.index[i] >> 8 << (i % 4 * 2));
    }
    memcpy(b->signs, fit.signs, sizeof b->signs);
    rp_put_nibble_pairs(fit.s, 8, b->scales);
}

#endif
