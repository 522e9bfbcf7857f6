/* expand_panel_x86.h - packed panels for AVX2 and AVX-512 of RP_EXPANDED_QUANTS (fallback/quants/expand.h): four rows
 * at a time, 32 elements at a time. */
#ifndef FALLBACK_PRODUCTS_EXPAND_PANEL_X86_H
#define FALLBACK_PRODUCTS_EXPAND_PANEL_X86_H

#include "fallback/products/blocks_x86.h"

#ifdef RP_X86

/* Transposes the 4 x 4 words of each half of four rows' vectors: word k of the lower halves goes to first + k * stride,
 * word k of the upper halves to second + k * stride. With raise = 128, 128 is added to each byte. */
INLINE_AVX2 void store_rows(const __m256i v[4], int raise, size_t stride, char *first, char *second) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i word[] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d),
                            _mm256_unpackhi_epi64(c, d)};
    for (int k = 0; k < 4; k++) {
        const __m256i q = _mm256_xor_si256(word[k], _mm256_set1_epi8((char)raise));
        _mm_store_si128((void *)(first + (size_t)k * stride), _mm256_castsi256_si128(q));
        _mm_store_si128((void *)(second + (size_t)k * stride), _mm256_extracti128_si256(q, 1));
    }
}

/* Eight sub-blocks' scales or minima of four rows, into the panel: `to` is the place of the first. */
INLINE_AVX2 void store_scales(const __m256 v[4], size_t sub_bytes, char *to) {
    const __m256i words[4] = {_mm256_castps_si256(v[0]), _mm256_castps_si256(v[1]), _mm256_castps_si256(v[2]),
                              _mm256_castps_si256(v[3])};
    store_rows(words, 0, sub_bytes, to, to + 4 * sub_bytes);
}

/* The signs of a block's entries and their places in the codebook, written by entries_<name>_avx2. */
typedef struct PanelEntries {
    _Alignas(32) uint8_t signs[32];
    uint16_t at[64];
} PanelEntries;

/* find_<name> goes before part_<name>, which gives elements 32i to 32i + 31. */
#define SEARCHED(ID, name, ...)                                                                                        \
    INLINE_AVX2 void    find_##name(const Block##ID *b, PanelEntries *e) { (void)b, (void)e; }                         \
    INLINE_AVX2 __m256i part_##name(const Block##ID *b, const PanelEntries *e, int i) {                                \
        return (void)e, expand_##name##_avx2(b, i);                                                                    \
    }
#define CODEBOOK(ID, name, ...)                                                                                        \
    INLINE_AVX2 void find_##name(const Block##ID *b, PanelEntries *e) {                                                \
        _mm256_store_si256((void *)e->signs, entries_##name##_avx2(b, e->at));                                         \
    }                                                                                                                  \
    INLINE_AVX2 __m256i part_##name(const Block##ID *b, const PanelEntries *e, int i) {                                \
        return elements_##name##_avx2(b, e->at, e->signs, i);                                                          \
    }
RP_SEARCHED_QUANTS(SEARCHED)
RP_CODEBOOK_QUANTS(CODEBOOK)
#undef SEARCHED
#undef CODEBOOK

/* pack_<name>, a PackPanel without its type. `raise`: 128 for panels of unsigned q, if the type's q are signed. */
#define RP_PACK_EXPANDED(TARGET, raise, ID, name)                                                                      \
    /* Block b of four rows, which are rows r to r + 3 of the panel. */                                                \
    TARGET RP_BODY void pack_block_##name(const char *const *row, int r, char *to) {                                   \
        enum { SUBS = RP_##ID##_ELEMS / RP_##ID##_SUB };                                                               \
        const QuantForm  form      = RP_QUANT_FORM(ID);                                                                \
        const size_t     sub_bytes = rp_panel_sub_bytes(&form), of_scales = RP_PANEL_ROWS * RP_##ID##_SUB;             \
        const size_t     second = RP_##ID##_SUB == 32 ? 16 * RP_PANEL_ROWS : sub_bytes; /* of element 16 */            \
        const Block##ID *b[4];                                                                                         \
        PanelEntries     entries[4];                                                                                   \
        for (int k = 0; k < 4; k++) {                                                                                  \
            b[k] = (const Block##ID *)(const void *)row[k];                                                            \
            find_##name(b[k], &entries[k]);                                                                            \
        }                                                                                                              \
        for (int i = 0; i < RP_##ID##_ELEMS / 32; i++) {                                                               \
            char   *first = to + (size_t)(32 / RP_##ID##_SUB * i) * sub_bytes + RP_QUAD * r;                           \
            __m256i v[4];                                                                                              \
            for (int k = 0; k < 4; k++) v[k] = part_##name(b[k], &entries[k], i);                                      \
            store_rows(v, (raise) == 128 ? 128 : 0, RP_QUAD * RP_PANEL_ROWS, first, first + second);                   \
        }                                                                                                              \
        if (SUBS == 1) {                                                                                               \
            float min;                                                                                                 \
            for (int k = 0; k < 4; k++) sub_scales_##name(b[k], (float *)(void *)(to + of_scales) + r + k, &min);      \
        }                                                                                                              \
        for (int part = 0; part < SUBS / 8; part++) {                                                                  \
            char  *at = to + (size_t)(8 * part) * sub_bytes + of_scales + sizeof(float) * (size_t)r;                   \
            __m256 scale[4], min[4];                                                                                   \
            for (int k = 0; k < 4; k++) scale[k] = sub_scales_##name##_avx2(b[k], part, &min[k]);                      \
            store_scales(scale, sub_bytes, at);                                                                        \
            if (RP_##ID##_HAS_MIN) store_scales(min, sub_bytes, at + RP_PANEL_ROWS * sizeof(float));                   \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void pack_##name(const char *rows, size_t stride, int n_rows, int64_t n,                             \
                                   const PrefetchStream *ahead, char *panel) {                                         \
        enum { SUBS = RP_##ID##_ELEMS / RP_##ID##_SUB };                                                               \
        const QuantForm form = RP_QUANT_FORM(ID);                                                                      \
        const char     *row[RP_PANEL_ROWS];                                                                            \
        rp_row_pointers(rows, stride, n_rows, RP_PANEL_ROWS, row);                                                     \
        for (int64_t b = 0; b < n / RP_##ID##_ELEMS; b++, panel += SUBS * rp_panel_sub_bytes(&form)) {                 \
            rp_prefetch_subs(ahead, b *SUBS, SUBS);                                                                    \
            for (int r = 0; r < RP_PANEL_ROWS; r += 4) pack_block_##name(row + r, r, panel);                           \
            for (int r = 0; r < RP_PANEL_ROWS; r++) row[r] += RP_##ID##_BYTES;                                         \
        }                                                                                                              \
    }
#endif
#endif
