/* expand_avx512.h - loads for AVX-512 of RP_EXPANDED_QUANTS (fallback/quants/expand.h). */
#ifndef FALLBACK_PRODUCTS_EXPAND_AVX512_H
#define FALLBACK_PRODUCTS_EXPAND_AVX512_H

#include "fallback/products/gemv_load_avx512.h"

#ifdef RP_X86

INLINE __m512i both(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }

INLINE __m512 both_ps(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }

/* Signed q are raised by their offset of 128. */
INLINE __m512i raised(int offset, __m512i v) {
    return offset == 128 ? _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)) : v;
}

/* Blocks of 32 begin with their scale. */
#define EXPANDED(ID, name, ...)                                                                                        \
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
            s[j]            = (Kstep){raised(RP_##ID##_OFFSET, x), _mm512_setzero_si512()};                            \
            if (RP_##ID##_SUB == 16) continue;                                                                         \
            const __m512i y = both(part_##name(p, PARTS * j + 2, n_subs), part_##name(p, PARTS * j + 3, n_subs));      \
            s[j].a          = raised(RP_##ID##_OFFSET, first_halves(x, y));                                            \
            s[j].b          = raised(RP_##ID##_OFFSET, second_halves(x, y));                                           \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void scales_##name(const char *const *row, size_t at, int n_subs, KstepScales *out) {                       \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            half_scales(row, at, RP_##ID##_BYTES, 1, n_subs, out);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        for (int part = 0; part < RP_##ID##_ELEMS / RP_##ID##_SUB / 8; part++) {                                       \
            __m256 scale[4], min[4], pair[4];                                                                          \
            for (int r = 0; r < 4; r++)                                                                                \
                scale[r] = sub_scales_##name##_avx2((const Block##ID *)(const void *)(row[r] + at), part, &min[r]);    \
            pairs_of_rows(scale, pair);                                                                                \
            for (int k = 0; k < 2; k++) out[2 * part + k].scale = both_ps(pair[2 * k], pair[2 * k + 1]);               \
            if (!RP_##ID##_HAS_MIN) continue;                                                                          \
            pairs_of_rows(min, pair);                                                                                  \
            for (int k = 0; k < 2; k++) out[2 * part + k].min = both_ps(pair[2 * k], pair[2 * k + 1]);                 \
        }                                                                                                              \
    }
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED
#endif
#endif
