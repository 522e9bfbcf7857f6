/* expand_avx2.h - sums of pairs for AVX2 of RP_GENERIC_QUANTS, made from expand_<name>_avx2
 * (fallback/quants/expand.h). */
#ifndef FALLBACK_PRODUCTS_EXPAND_AVX2_H
#define FALLBACK_PRODUCTS_EXPAND_AVX2_H

#include "fallback/products/gemv_load_avx2.h"

#ifdef RP_X86

#define SCALES(ID, name, ...) ROW_SCALES(ID, name)
RP_GENERIC_QUANTS(SCALES)
#undef SCALES

/* Elements 0-15 and 16-31 of a and b: HALVES. */
INLINE void to_halves(__m256i a, __m256i b, __m256i q[2]) {
    q[0] = _mm256_permute2x128_si256(a, b, 0x20);
    q[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

#define SUMS(ID, name, ...)                                                                                            \
    enum { LEFT_##name = 0 };                                                                                          \
    INLINE void    header_##name(const char *const *p, Header *out) { scales_of_rows_##name(p, out); }                 \
    INLINE __m256i sums_##name(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {        \
        const int u = 4 * j + 2 * h;                                                                                   \
        __m256i   v[ROWS];                                                                                             \
        (void)header;                                                                                                  \
        for (int r = 0; r < ROWS; r++) {                                                                               \
            const Block##ID *b = (const Block##ID *)(const void *)p[r];                                                \
            __m256i          q[2];                                                                                     \
            if (RP_##ID##_SUB == 16) {                                                                                 \
                v[r] = signed_products(expand_##name##_avx2(b, u / 2), x, 0);                                          \
            } else {                                                                                                   \
                if (RP_##ID##_ELEMS == 32)                                                                             \
                    to_halves(expand_##name##_avx2(b + u, 0), expand_##name##_avx2(b + u + 1, 0), q);                  \
                else                                                                                                   \
                    to_halves(expand_##name##_avx2(b, u), expand_##name##_avx2(b, u + 1), q);                          \
                const __m256i first = signed_products(q[0], x, 0), second = signed_products(q[1], x, 1);               \
                if (RP_##ID##_TOP > 128 + 16)                                                                          \
                    v[r] = _mm256_add_epi32(sums_of_pairs(first), sums_of_pairs(second));                              \
                else                                                                                                   \
                    v[r] = _mm256_add_epi16(first, second);                                                            \
            }                                                                                                          \
        }                                                                                                              \
        if (RP_##ID##_SUB == 32 && RP_##ID##_TOP > 128 + 16) return sums_of_32(v);                                     \
        return sums_less_offset(v, _mm256_setzero_si256());                                                            \
    }
RP_GENERIC_QUANTS(SUMS)
#undef SUMS
#endif
#endif
