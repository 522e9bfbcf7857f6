/* expand_avx512.h - loads for AVX-512 of RP_GENERIC_QUANTS, made from expand_<name>_avx2
 * (fallback/quants/expand.h). */
#ifndef FALLBACK_PRODUCTS_EXPAND_AVX512_H
#define FALLBACK_PRODUCTS_EXPAND_AVX512_H

#include "fallback/products/gemv_load_avx512.h"

#ifdef RP_X86

#define SCALES(ID, name, ...) ROW_SCALES(ID, name)
RP_GENERIC_QUANTS(SCALES)
#undef SCALES

/* Signed q are raised by their offset of 128. */
INLINE __m512i raised(int offset, __m512i v) {
    return offset == 128 ? _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)) : v;
}

#define EXPANDED(ID, name, ...)                                                                                        \
    enum { LEFT_##name = RP_##ID##_OFFSET };                                                                           \
    /* 32 elements of a load: sub-block or block i, nothing past n_subs blocks of 32 */                                \
    INLINE __m256i part_##name(const char *p, int i, int n_subs) {                                                     \
        const Block##ID *b = (const Block##ID *)(const void *)p;                                                       \
        if (RP_##ID##_ELEMS > 32) return expand_##name##_avx2(b, i);                                                   \
        return i < n_subs ? expand_##name##_avx2(b + i, 0) : _mm256_setzero_si256();                                   \
    }                                                                                                                  \
    INLINE void load_##name(const char *p, int n_subs, Kstep *s) {                                                     \
        enum { PARTS = RP_##ID##_SUB / 8 }; /* of a k-step */                                                          \
        for (int j = 0; j < RP_LOAD_KSTEPS(ID); j++) {                                                                 \
            const __m512i x = both(part_##name(p, PARTS * j, n_subs), part_##name(p, PARTS * j + 1, n_subs));          \
            s[j].a          = raised(RP_##ID##_OFFSET, x);                                                             \
            if (RP_##ID##_SUB == 16) continue;                                                                         \
            const __m512i y = both(part_##name(p, PARTS * j + 2, n_subs), part_##name(p, PARTS * j + 3, n_subs));      \
            s[j].a          = raised(RP_##ID##_OFFSET, first_halves(x, y));                                            \
            s[j].b          = raised(RP_##ID##_OFFSET, second_halves(x, y));                                           \
        }                                                                                                              \
    }
RP_GENERIC_QUANTS(EXPANDED)
#undef EXPANDED
#endif
#endif
