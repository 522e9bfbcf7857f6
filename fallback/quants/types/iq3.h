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
RP_BODY int at_iq3_xxs(const BlockIQ3_XXS *b, const uint16_t *at, int e) { return (void)at, b->qs[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq3_xxs_avx2(const BlockIQ3_XXS *b, uint16_t *at) {
    return (void)at, rp_even_signs_of_words_avx2(_mm256_loadu_si256((const void *)b->signs));
}

/* Two bytes of qh belong to 16 entries: each to eight words, which are multiplied to bring their bit to bit 8. */
RP_BODY int                    at_iq3_s(const BlockIQ3_S *b, const uint16_t *at, int e) { return (void)b, at[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq3_s_avx2(const BlockIQ3_S *b, uint16_t *at) {
    const __m256i by = _mm256_broadcastsi128_si256(_mm_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2));
    const __m128i qh = _mm_loadl_epi64((const void *)b->qh);
    for (int i = 0; i < 4; i++) {
        const __m256i of = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi16((short)(0xff00 | (2 * i)))),
                                                   _mm_set1_epi16((short)(0xff00 | (2 * i + 1))), 1);
        const __m256i v  = _mm256_mullo_epi16(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(qh), of), by);
        rp_put_places_avx2(b->qs + 16 * i, _mm256_and_si256(v, _mm256_set1_epi16(256)), at + 16 * i);
    }
    return _mm256_loadu_si256((const void *)b->signs);
}

#define RP_ELEMENTS_IQ3(ID, name)                                                                                      \
    RP_TARGET_AVX2 RP_BODY __m256i elements_##name##_avx2(const Block##ID *b, const uint16_t *at,                      \
                                                          const uint8_t *signs, int i) {                               \
        int of[8];                                                                                                     \
        for (int k = 0; k < 8; k++) of[k] = at_##name(b, at, 8 * i + k);                                               \
        return rp_negate_avx2(rp_take_eight_avx2(rp_codebook_##name, of), rp_word_at(signs + 4 * i));                  \
    }
RP_ELEMENTS_IQ3(IQ3_XXS, iq3_xxs)
RP_ELEMENTS_IQ3(IQ3_S, iq3_s)
#undef RP_ELEMENTS_IQ3
#endif

RP_BODY uint16_t factors_iq3_xxs(const BlockIQ3_XXS *b, int8_t *s) {
    for (int u = 0; u < 8; u++) s[u] = (int8_t)(2 * (b->signs[4 * u + 3] >> 4) + 1);
    return b->d;
}

RP_BODY uint16_t factors_iq3_s(const BlockIQ3_S *b, int8_t *s) {
    for (int u = 0; u < 8; u++) s[u] = (int8_t)(2 * (b->scales[u / 2] >> (u % 2 * 4) & 15) + 1);
    return b->d;
}
RP_FEW_VALUES(IQ3_XXS, iq3_xxs, 0.25f, 64, 3, -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62)
RP_FEW_VALUES(IQ3_S, iq3_s, 1.0f, 16, 1, -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15)

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

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
SIGNS_HEADER(IQ3_XXS, iq3_xxs)
SIGNS_HEADER(IQ3_S, iq3_s)

/* A lane has four products: 62 * 127 * 4 fits in 16 bits, and 15 * 127 * 16 of IQ3_S. */
#define SUMS(ID, name, reduce)                                                                                         \
    INLINE __m256i sums_##name(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {        \
        const int i = 2 * j + h;                                                                                       \
        __m256i   v[ROWS];                                                                                             \
        _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) {                                                       \
            const Block##ID       *block = (const Block##ID *)(const void *)p[r];                                      \
            const CodebookEntries *e     = &header->entries[r];                                                        \
            const __m256i          signs = signs_of_64(e, i);                                                          \
            const __m256i          a = TAKE4(name, 16 * i, 16 * i + 8), b = TAKE4(name, 16 * i + 4, 16 * i + 12);      \
            v[r] = _mm256_add_epi16(_mm256_maddubs_epi16(a, with_signs(x->q[0], signs, 0, 1, 4, 5)),                   \
                                    _mm256_maddubs_epi16(b, with_signs(x->q[1], signs, 2, 3, 6, 7)));                  \
            if (reduce == 32) v[r] = sums_of_pairs(v[r]);                                                              \
        }                                                                                                              \
        return reduce == 32 ? sums_of_32(v) : sums_less_offset(v, _mm256_setzero_si256());                             \
    }
SUMS(IQ3_XXS, iq3_xxs, 32)
SUMS(IQ3_S, iq3_s, 16)
#undef SUMS
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(IQ3_XXS, iq3_xxs)
ROW_SCALES(IQ3_S, iq3_s)
enum { LEFT_iq3_xxs = NEGATIVE, LEFT_iq3_s = NEGATIVE };

#define LOAD(ID, name)                                                                                                 \
    INLINE void load_##name(const char *p, int n_subs, Kstep *s) {                                                     \
        const Block##ID *b = (const Block##ID *)(const void *)p;                                                       \
        uint16_t         at[64];                                                                                       \
        (void)n_subs;                                                                                                  \
        put_masks(entries_##name##_avx2(b, at), s);                                                                    \
        for (int j = 0; j < 2; j++) {                                                                                  \
            s[j].a = TAKE4(name, 32 * j);                                                                              \
            s[j].b = TAKE4(name, 32 * j + 4);                                                                          \
        }                                                                                                              \
    }
LOAD(IQ3_XXS, iq3_xxs)
LOAD(IQ3_S, iq3_s)
#undef LOAD
#endif
