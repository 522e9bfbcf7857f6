/* expand_panel_x86.h - packed panels for AVX2 and AVX-512 of RP_EXPANDED_QUANTS (fallback/quants/expand.h): four rows
 * at a time, 32 elements at a time. */
#ifndef FALLBACK_PRODUCTS_EXPAND_PANEL_X86_H
#define FALLBACK_PRODUCTS_EXPAND_PANEL_X86_H

#include "fallback/products/blocks_x86.h"

#ifdef RP_X86

/* Stores four rows' vectors as quads: a 4 x 4 transposition of words in each half. Quads of the lower halves go to
 * `first`, those of the upper halves to `second`. With raise = 128, 128 is added to each element. */
INLINE_AVX2 void store_rows(const __m256i v[4], int raise, char *first, char *second) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i quad[] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d),
                            _mm256_unpackhi_epi64(c, d)};
    for (int k = 0; k < 4; k++) {
        const size_t  at = (size_t)k * RP_QUAD * RP_PANEL_ROWS;
        const __m256i q  = _mm256_xor_si256(quad[k], _mm256_set1_epi8((char)raise));
        _mm_store_si128((void *)(first + at), _mm256_castsi256_si128(q));
        _mm_store_si128((void *)(second + at), _mm256_extracti128_si256(q, 1));
    }
}

/* pack_<name>, a PackPanel without its type. `raise`: 128 for panels of unsigned q, if the type's q are signed. */
#define RP_PACK_EXPANDED(TARGET, raise, ID, name)                                                                      \
    /* Block b of four rows, which are rows r to r + 3 of the panel. */                                                \
    TARGET RP_BODY void pack_block_##name(const char *const *row, int r, char *to) {                                   \
        enum { SUBS = RP_##ID##_ELEMS / RP_##ID##_SUB };                                                               \
        const QuantForm form      = RP_QUANT_FORM(ID);                                                                 \
        const size_t    sub_bytes = rp_panel_sub_bytes(&form), of_scales = RP_PANEL_ROWS * RP_##ID##_SUB;              \
        const size_t    second = RP_##ID##_SUB == 32 ? 16 * RP_PANEL_ROWS : sub_bytes; /* of element 16 */             \
        for (int i = 0; i < RP_##ID##_ELEMS / 32; i++) {                                                               \
            char   *first = to + (size_t)(32 / RP_##ID##_SUB * i) * sub_bytes + RP_QUAD * r;                           \
            __m256i v[4];                                                                                              \
            for (int k = 0; k < 4; k++) v[k] = expand_##name##_avx2((const Block##ID *)(const void *)row[k], i);       \
            store_rows(v, (raise) == 128 ? 128 : 0, first, first + second);                                            \
        }                                                                                                              \
        for (int k = 0; k < 4; k++) {                                                                                  \
            float scale[SUBS], min[SUBS];                                                                              \
            sub_scales_##name((const Block##ID *)(const void *)row[k], scale, min);                                    \
            for (int u = 0; u < SUBS; u++) {                                                                           \
                float *at = (float *)(void *)(to + (size_t)u * sub_bytes + of_scales) + r + k;                         \
                at[0]     = scale[u];                                                                                  \
                if (RP_##ID##_HAS_MIN) at[RP_PANEL_ROWS] = min[u];                                                     \
            }                                                                                                          \
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
