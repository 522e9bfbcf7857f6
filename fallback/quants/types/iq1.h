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
        for (int g = 0; g < 4; g++) {                                                                                  \
            const int offset = 1 - 2 * (minus >> g & 1);                                                               \
            for (int k = 0; k < 8; k++) v[8 * g + k] = (int8_t)(v[8 * g + k] + offset);                                \
        }                                                                                                              \
    }                                                                                                                  \
    RP_EXPAND_NEON(ID, name)
RP_EXPAND_IQ1(IQ1_S, iq1_s)
RP_EXPAND_IQ1(IQ1_M, iq1_m)
#undef RP_EXPAND_IQ1

#ifdef RP_X86
/* Four words of qh belong to 16 entries: each to four words. They are multiplied to bring their three bits to bits 8 to
 * 10. The word of the fourth entry is shifted to the right by one before, and so are those of the second and third. */
RP_BODY int                    at_iq1_s(const BlockIQ1_S *b, const uint16_t *at, int e) { return (void)b, at[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq1_s_avx2(const BlockIQ1_S *b, uint16_t *at) {
    const __m128i qh = _mm_loadu_si128((const void *)b->qh), half = _mm_srli_epi16(qh, 1);
    const __m128i of = _mm_setr_epi8(0, 1, 2, 3, 2, 3, 2, 3, 4, 5, 6, 7, 6, 7, 6, 7);
    const __m256i by = _mm256_set1_epi64x(0x0001000800400100);
    for (int i = 0; i < 2; i++) {
        const __m128i twice = i == 0 ? _mm_unpacklo_epi16(qh, half) : _mm_unpackhi_epi16(qh, half);
        const __m128i low = _mm_shuffle_epi8(twice, of), high = _mm_shuffle_epi8(_mm_unpackhi_epi64(twice, twice), of);
        const __m256i v = _mm256_mullo_epi16(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), by);
        rp_put_places_avx2(b->qs + 16 * i, _mm256_and_si256(v, _mm256_set1_epi16(0x700)), at + 16 * i);
    }
    /* the highest bit of each word, to four bytes */
    const __m128i minus = _mm_srai_epi16(qh, 15);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(minus, minus)),
                                   _mm_unpackhi_epi16(minus, minus), 1);
}

/* A byte of qh belongs to two entries: it is multiplied to bring three bits to bits 8 to 10. */
RP_BODY int                    at_iq1_m(const BlockIQ1_M *b, const uint16_t *at, int e) { return (void)b, at[e]; }
RP_TARGET_AVX2 RP_BODY __m256i entries_iq1_m_avx2(const BlockIQ1_M *b, uint16_t *at) {
    const __m128i qh = _mm_loadu_si128((const void *)b->qh), up = _mm_slli_epi16(qh, 4);
    const __m128i low = _mm_unpacklo_epi8(up, qh), high = _mm_unpackhi_epi8(up, qh); /* bits 4-7 of each byte */
    const __m128i part[] = {low, high};
    for (int i = 0; i < 2; i++) {
        const __m256i v = _mm256_slli_epi16(_mm256_cvtepu8_epi16(part[i]), 4);
        rp_put_places_avx2(b->qs + 16 * i, _mm256_and_si256(v, _mm256_set1_epi16(0x700)), at + 16 * i);
    }
    const __m256i all = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    return _mm256_cmpgt_epi8(_mm256_setzero_si256(), all);
}

/* -1 is 255 | 1 */
#define RP_ELEMENTS_IQ1(ID, name)                                                                                      \
    RP_TARGET_AVX2 RP_BODY __m256i elements_##name##_avx2(const Block##ID *b, const uint16_t *at,                      \
                                                          const uint8_t *minus, int i) {                               \
        const __m256i each   = rp_bytes_8_times_avx2(rp_word_at(minus + 4 * i));                                       \
        const int     four[] = {at_##name(b, at, 4 * i), at_##name(b, at, 4 * i + 1), at_##name(b, at, 4 * i + 2),     \
                                at_##name(b, at, 4 * i + 3)};                                                          \
        return _mm256_add_epi8(rp_take_four_avx2(rp_codebook_iq1, four), _mm256_or_si256(each, _mm256_set1_epi8(1)));  \
    }
RP_ELEMENTS_IQ1(IQ1_S, iq1_s)
RP_ELEMENTS_IQ1(IQ1_M, iq1_m)
#undef RP_ELEMENTS_IQ1
#endif

RP_BODY uint16_t factors_iq1_s(const BlockIQ1_S *b, int8_t *s) {
    for (int u = 0; u < 8; u++) s[u] = (int8_t)(2 * (b->qh[u] >> 12 & 7) + 1);
    return b->d;
}

/* The scale d of the block. */
RP_BODY uint16_t rp_iq1_m_half(const BlockIQ1_M *b) {
    uint64_t words;
    memcpy(&words, b->scales, sizeof words);
    return (uint16_t)((words >> 12 & 15) | (words >> 24 & 0xf0) | (words >> 36 & 0xf00) | (words >> 48 & 0xf000));
}

RP_BODY uint16_t factors_iq1_m(const BlockIQ1_M *b, int8_t *s) {
    uint16_t words[4];
    memcpy(words, b->scales, sizeof words);
    for (int u = 0; u < 16; u++) s[u] = (int8_t)(2 * (words[u / 4] >> (u % 4 * 3) & 7) + 1);
    return rp_iq1_m_half(b);
}
RP_FEW_VALUES(IQ1_S, iq1_s, 0.125f, 12, 1, 0, -9, -7, 0, 0, -1, 1, 0, 0, 7, 9)
RP_FEW_VALUES(IQ1_M, iq1_m, 0.125f, 12, 1, 0, -9, -7, 0, 0, -1, 1, 0, 0, 7, 9)

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

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
/* 8 times the value, plus 9 and the offset of 1 or -1, is unsigned. 9 is subtracted like the offset of other types. */
#define HEADER(ID, name)                                                                                               \
    ROW_SCALES(ID, name)                                                                                               \
    enum { LEFT_##name = 9 };                                                                                          \
    INLINE void header_##name(const char *const *p, Header *out) {                                                     \
        scales_of_rows_##name(p, out);                                                                                 \
        for (int r = 0; r < ROWS; r++) {                                                                               \
            CodebookEntries *e     = &out->entries[r];                                                                 \
            const __m256i    minus = entries_##name##_avx2((const Block##ID *)(const void *)p[r], e->at);              \
            _mm256_store_si256((void *)e->signs,                                                                       \
                               _mm256_add_epi8(_mm256_set1_epi8(10), _mm256_add_epi8(minus, minus)));                  \
        }                                                                                                              \
    }
HEADER(IQ1_S, iq1_s)
HEADER(IQ1_M, iq1_m)
#undef HEADER

/* Bytes a, b, c and d of v, each 8 times. */
INLINE __m256i each_8_times(__m256i v, int a, int b, int c, int d) {
    const uint64_t all = 0x0101010101010101;
    return _mm256_shuffle_epi8(v, _mm256_setr_epi64x((int64_t)(all * (uint64_t)a), (int64_t)(all * (uint64_t)b),
                                                     (int64_t)(all * (uint64_t)c), (int64_t)(all * (uint64_t)d)));
}

/* All entries of a sub-block have the same offset. */
INLINE __m256i sums_iq1_s(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    const int i = 2 * j + h;
    __m256i   v[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        const BlockIQ1_S      *block = (const BlockIQ1_S *)(const void *)p[r];
        const CodebookEntries *e     = &header->entries[r];
        int64_t                eight;
        memcpy(&eight, e->signs + 8 * i, sizeof eight);
        const __m256i add = each_8_times(_mm256_set1_epi64x(eight), 0, 0, 4, 4);
        const __m256i a   = TAKE8(iq1_s, rp_codebook_iq1, 8 * i, 8 * i + 1, 8 * i + 4, 8 * i + 5);
        const __m256i b   = TAKE8(iq1_s, rp_codebook_iq1, 8 * i + 2, 8 * i + 3, 8 * i + 6, 8 * i + 7);
        v[r]              = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_add_epi8(a, add), x->q[0]),
                                             _mm256_maddubs_epi16(_mm256_add_epi8(b, add), x->q[1]));
    }
    return sums_less_offset(v, x->offset);
}

INLINE __m256i sums_iq1_m(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    const int i = 2 * j + h;
    __m256i   v[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        const BlockIQ1_M      *block = (const BlockIQ1_M *)(const void *)p[r];
        const CodebookEntries *e     = &header->entries[r];
        const __m256i add = each_8_times(_mm256_set1_epi32(word32((const char *)e->signs + 4 * i)), 0, 1, 2, 3);
        const __m256i a   = TAKE8(iq1_m, rp_codebook_iq1, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);
        v[r]              = _mm256_maddubs_epi16(_mm256_add_epi8(a, add), x->q[0]);
    }
    return sums_less_offset(v, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(IQ1_S, iq1_s)
ROW_SCALES(IQ1_M, iq1_m)
enum { LEFT_iq1_s = 9, LEFT_iq1_m = 9 };

/* 8 times the value, plus 9 and the offset of 1 or, in the entries of set bits, -1. */
INLINE __m512i with_offsets(__m512i entries, __mmask8 minus) {
    const __m512i v = _mm512_add_epi8(entries, _mm512_set1_epi8(10));
    return _mm512_mask_sub_epi64(v, minus, v, _mm512_set1_epi8(2)); /* no byte borrows */
}

/* All entries of a sub-block have the same offset. */
INLINE void load_iq1_s(const char *p, int n_subs, Kstep *s) {
    const BlockIQ1_S *b = (const BlockIQ1_S *)(const void *)p;
    uint16_t          at[64];
    (void)n_subs;
    (void)entries_iq1_s_avx2(b, at);
    const int minus = _mm_movemask_epi8(_mm_srai_epi16(load16(b->qh), 15)); /* two bits for a sub-block */
    for (int j = 0; j < 2; j++) {
        s[j].a = with_offsets(TAKE8(iq1_s, rp_codebook_iq1, 16 * j, 4), (__mmask8)(minus >> 8 * j));
        s[j].b = with_offsets(TAKE8(iq1_s, rp_codebook_iq1, 16 * j + 2, 4), (__mmask8)(minus >> 8 * j));
    }
}

INLINE void load_iq1_m(const char *p, int n_subs, Kstep *s) {
    const BlockIQ1_M *b = (const BlockIQ1_M *)(const void *)p;
    uint16_t          at[64];
    (void)n_subs;
    const uint32_t minus = (uint32_t)_mm256_movemask_epi8(entries_iq1_m_avx2(b, at));
    for (int j = 0; j < 4; j++)
        s[j].a = with_offsets(TAKE8(iq1_m, rp_codebook_iq1, 8 * j, 2), (__mmask8)(minus >> 8 * j));
}
#endif
