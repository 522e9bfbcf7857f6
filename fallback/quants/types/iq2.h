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
/* The words with the signs of eight times 32 elements. */
RP_TARGET_AVX2 RP_BODY __m256i rp_iq2_xxs_words_avx2(const BlockIQ2_XXS *b) {
    const __m256 low = _mm256_loadu_ps((const void *)b->qs), high = _mm256_loadu_ps((const void *)(b->qs + 32));
    /* the odd words of both, as 0 1 4 5 2 3 6 7 */
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd)), 0xd8);
}

RP_BODY int at_iq2_xxs(const BlockIQ2_XXS *b, const uint16_t *at, int e) { return (void)at, b->qs[e / 4 * 8 + e % 4]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq2_xxs_avx2(const BlockIQ2_XXS *b, uint16_t *at) {
    return (void)at, rp_even_signs_of_words_avx2(rp_iq2_xxs_words_avx2(b));
}

RP_BODY int                    at_iq2_xs(const BlockIQ2_XS *b, const uint16_t *at, int e) { return (void)b, at[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq2_xs_avx2(const BlockIQ2_XS *b, uint16_t *at) {
    const __m256i v[]  = {_mm256_loadu_si256((const void *)b->qs), _mm256_loadu_si256((const void *)(b->qs + 32))};
    const __m256i nine = _mm256_set1_epi16(511);
    for (int i = 0; i < 2; i++) rp_put_words_avx2(_mm256_and_si256(v[i], nine), at + 16 * i);
    const __m256i both = _mm256_packus_epi16(_mm256_srli_epi16(v[0], 9), _mm256_srli_epi16(v[1], 9));
    return rp_even_signs_avx2(_mm256_permute4x64_epi64(both, 0xd8));
}

/* Four bytes of qh belong to 16 entries: each to four words, which are multiplied to bring their bits to 8 and 9. */
RP_BODY int                    at_iq2_s(const BlockIQ2_S *b, const uint16_t *at, int e) { return (void)b, at[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq2_s_avx2(const BlockIQ2_S *b, uint16_t *at) {
    const __m256i of = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1, 2,
                                        -1, 3, -1, 3, -1, 3, -1, 3, -1);
    const __m256i by = _mm256_set1_epi64x((int64_t)0x0004001000400100);
    for (int i = 0; i < 2; i++) {
        const __m256i four = _mm256_set1_epi32((int)rp_word_at(b->qh + 4 * i));
        const __m256i v    = _mm256_mullo_epi16(_mm256_shuffle_epi8(four, of), by);
        rp_put_places_avx2(b->qs + 16 * i, _mm256_and_si256(v, _mm256_set1_epi16(0x300)), at + 16 * i);
    }
    return _mm256_loadu_si256((const void *)b->signs);
}

#define RP_ELEMENTS_IQ2(ID, name)                                                                                      \
    RP_TARGET_AVX2 RP_BODY __m256i elements_##name##_avx2(const Block##ID *b, const uint16_t *at,                      \
                                                          const uint8_t *signs, int i) {                               \
        const int of[] = {at_##name(b, at, 4 * i), at_##name(b, at, 4 * i + 1), at_##name(b, at, 4 * i + 2),           \
                          at_##name(b, at, 4 * i + 3)};                                                                \
        return rp_negate_avx2(rp_take_four_avx2(rp_codebook_##name, of), rp_word_at(signs + 4 * i));                   \
    }
RP_ELEMENTS_IQ2(IQ2_XXS, iq2_xxs)
RP_ELEMENTS_IQ2(IQ2_XS, iq2_xs)
RP_ELEMENTS_IQ2(IQ2_S, iq2_s)
#undef RP_ELEMENTS_IQ2
#endif

RP_BODY uint16_t factors_iq2_xxs(const BlockIQ2_XXS *b, int8_t *s) {
    for (int u = 0; u < 8; u++) s[u] = (int8_t)(2 * (b->qs[8 * u + 7] >> 4) + 1);
    return b->d;
}

RP_BODY void rp_iq2_factors(const uint8_t *scales, int8_t *s) {
    for (int u = 0; u < 16; u++) s[u] = (int8_t)(2 * (scales[u / 2] >> (u % 2 * 4) & 15) + 1);
}
RP_BODY uint16_t factors_iq2_xs(const BlockIQ2_XS *b, int8_t *s) { return rp_iq2_factors(b->scales, s), b->d; }
RP_BODY uint16_t factors_iq2_s(const BlockIQ2_S *b, int8_t *s) { return rp_iq2_factors(b->scales, s), b->d; }
RP_FEW_VALUES(IQ2_XXS, iq2_xxs, 0.125f, 64, 4, 0, -43, -25, -8, 8, 25, 43)
RP_FEW_VALUES(IQ2_XS, iq2_xs, 0.125f, 64, 4, 0, -43, -25, -8, 8, 25, 43)
RP_FEW_VALUES(IQ2_S, iq2_s, 0.125f, 64, 4, 0, -43, -25, -8, 8, 25, 43)

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq2_xxs_avx2(const BlockIQ2_XXS *b, int part, __m256 *min) {
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 0.125f, rp_odd_avx2(_mm256_srli_epi32(rp_iq2_xxs_words_avx2(b), 28)));
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

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
SIGNS_HEADER(IQ2_XXS, iq2_xxs)
SIGNS_HEADER(IQ2_XS, iq2_xs)
SIGNS_HEADER(IQ2_S, iq2_s)

/* A lane has four products: 43 * 127 * 4 fits in 16 bits. */
INLINE __m256i sums_iq2_xxs(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    const int i = 2 * j + h;
    __m256i   v[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        const BlockIQ2_XXS    *block = (const BlockIQ2_XXS *)(const void *)p[r];
        const CodebookEntries *e     = &header->entries[r];
        const __m256i          signs = signs_of_64(e, i);
        const __m256i          a     = TAKE8(iq2_xxs, rp_codebook_iq2_xxs, 8 * i, 8 * i + 1, 8 * i + 4, 8 * i + 5);
        const __m256i          b     = TAKE8(iq2_xxs, rp_codebook_iq2_xxs, 8 * i + 2, 8 * i + 3, 8 * i + 6, 8 * i + 7);
        v[r] = sums_of_pairs(_mm256_add_epi16(_mm256_maddubs_epi16(a, with_signs(x->q[0], signs, 0, 1, 4, 5)),
                                              _mm256_maddubs_epi16(b, with_signs(x->q[1], signs, 2, 3, 6, 7))));
    }
    return sums_of_32(v);
}

/* Sub-blocks of 16: a pair is 32 elements, with four of the eight words of 64. */
#define SUMS(ID, name)                                                                                                 \
    INLINE __m256i sums_##name(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {        \
        const int i = 2 * j + h, first = 4 * h;                                                                        \
        __m256i   v[ROWS];                                                                                             \
        _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) {                                                       \
            const Block##ID       *block = (const Block##ID *)(const void *)p[r];                                      \
            const CodebookEntries *e     = &header->entries[r];                                                        \
            const __m256i of_x = with_signs(x->q[0], signs_of_64(e, j), first, first + 1, first + 2, first + 3);       \
            v[r] =                                                                                                     \
                _mm256_maddubs_epi16(TAKE8(name, rp_codebook_##name, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3), of_x);   \
        }                                                                                                              \
        return sums_of_16(v);                                                                                          \
    }
SUMS(IQ2_XS, iq2_xs)
SUMS(IQ2_S, iq2_s)
#undef SUMS
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(IQ2_XXS, iq2_xxs)
ROW_SCALES(IQ2_XS, iq2_xs)
ROW_SCALES(IQ2_S, iq2_s)
enum { LEFT_iq2_xxs = NEGATIVE, LEFT_iq2_xs = NEGATIVE, LEFT_iq2_s = NEGATIVE };

INLINE void load_iq2_xxs(const char *p, int n_subs, Kstep *s) {
    const BlockIQ2_XXS *b = (const BlockIQ2_XXS *)(const void *)p;
    uint16_t            at[64];
    (void)n_subs;
    put_masks(entries_iq2_xxs_avx2(b, at), s);
    for (int j = 0; j < 2; j++) {
        s[j].a = TAKE8(iq2_xxs, rp_codebook_iq2_xxs, 16 * j, 4);
        s[j].b = TAKE8(iq2_xxs, rp_codebook_iq2_xxs, 16 * j + 2, 4);
    }
}

/* Sub-blocks of 16: a k-step is 64 elements in order. */
#define LOAD(ID, name)                                                                                                 \
    INLINE void load_##name(const char *p, int n_subs, Kstep *s) {                                                     \
        const Block##ID *b = (const Block##ID *)(const void *)p;                                                       \
        uint16_t         at[64];                                                                                       \
        uint64_t         masks[4];                                                                                     \
        (void)n_subs;                                                                                                  \
        _mm256_storeu_si256((void *)masks, entries_##name##_avx2(b, at));                                              \
        for (int j = 0; j < 4; j++) {                                                                                  \
            s[j].a          = TAKE8(name, rp_codebook_##name, 8 * j, 2);                                               \
            s[j].negative_a = masks[j];                                                                                \
        }                                                                                                              \
    }
LOAD(IQ2_XS, iq2_xs)
LOAD(IQ2_S, iq2_s)
#undef LOAD
#endif
