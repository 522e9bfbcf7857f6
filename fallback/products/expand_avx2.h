/* expand_avx2.h - loads for AVX2 of RP_EXPANDED_QUANTS (fallback/quants/expand.h). */
#ifndef FALLBACK_PRODUCTS_EXPAND_AVX2_H
#define FALLBACK_PRODUCTS_EXPAND_AVX2_H

#include "fallback/products/gemv_load_avx2.h"

#ifdef RP_X86

/* Blocks of 32 begin with their scale; a pair is two of them. Else a pair is 64 elements, or 32 with sub-blocks of
 * 16. */
#define EXPANDED(ID, name, ...)                                                                                        \
    INLINE void load_##name(const char *p, int j, int h, __m256i q[2]) {                                               \
        const Block##ID *b = (const Block##ID *)(const void *)p;                                                       \
        const int        u = 4 * j + 2 * h;                                                                            \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            q[0] = expand_##name##_avx2(b + u, 0);                                                                     \
            q[1] = expand_##name##_avx2(b + u + 1, 0);                                                                 \
        } else {                                                                                                       \
            q[0] = expand_##name##_avx2(b, RP_##ID##_SUB == 32 ? u : u / 2);                                           \
            q[1] = RP_##ID##_SUB == 32 ? expand_##name##_avx2(b, u + 1) : _mm256_setzero_si256();                      \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void header_##name(const char *const *p, Header *out) {                                                     \
        for (int part = 0; part < RP_##ID##_ELEMS / RP_##ID##_SUB / 8; part++) {                                       \
            __m256 scale[ROWS], min[ROWS];                                                                             \
            for (int r = 0; r < ROWS; r++)                                                                             \
                scale[r] = sub_scales_##name##_avx2((const Block##ID *)(const void *)p[r], part, &min[r]);             \
            pairs_of_rows(scale, out->scale + 4 * part);                                                               \
            if (RP_##ID##_HAS_MIN) pairs_of_rows(min, out->min + 4 * part);                                            \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void scales_##name(const char *const *p, const Header *header, int j, int h, PairScales *out) {             \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            only_scales(p, RP_##ID##_BYTES, h, out);                                                                   \
            return;                                                                                                    \
        }                                                                                                              \
        out->scale = header->scale[2 * j + h];                                                                         \
        out->min   = RP_##ID##_HAS_MIN ? header->min[2 * j + h] : _mm256_setzero_ps();                                 \
    }
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED
#endif
#endif
