/* tq2_0.h - TQ2_0: x[i] = d * (q[i] - 1) with q from 0 to 2. */
#ifndef FALLBACK_QUANTS_TYPES_TQ2_0_H
#define FALLBACK_QUANTS_TYPES_TQ2_0_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* Elements 128h + 32m + k are bits 2m and 2m + 1 of qs[32h + k]. */
typedef struct BlockTQ2_0 {
    uint8_t  qs[64];
    uint16_t d;
} BlockTQ2_0;

RP_BODY void expand_tq2_0(const BlockTQ2_0 *b, int i, int8_t *v) {
    for (int k = 0; k < 32; k++) v[k] = (int8_t)((b->qs[i / 4 * 32 + k] >> (i % 4 * 2) & 3) - 1);
}
RP_EXPAND_NEON(TQ2_0, tq2_0)

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i expand_tq2_0_avx2(const BlockTQ2_0 *b, int i) {
    const __m256i v = _mm256_loadu_si256((const void *)(b->qs + i / 4 * 32));
    return _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(v, i % 4 * 2), _mm256_set1_epi8(3)), _mm256_set1_epi8(1));
}
#endif

/* One scale for all eight sub-blocks. */
RP_BODY void sub_scales_tq2_0(const BlockTQ2_0 *b, float *scale, float *min) {
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = rp_f16_to_f32(b->d);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_tq2_0_avx2(const BlockTQ2_0 *b, int part, __m256 *min) {
    return (void)part, (void)min, rp_times_f16_avx2(b->d, 1.0f, _mm256_set1_epi32(1));
}
#endif

static inline void quantize_tq2_0(const float *x, const float *w, void *out) {
    BlockTQ2_0 *b = out;
    int         q[256];
    (void)w;
    memset(b, 0, sizeof *b);
    b->d = rp_f32_to_f16(rp_fit_ternary(x, 256, q));
    for (int i = 0; i < 256; i++) {
        uint8_t *byte = &b->qs[i / 128 * 32 + i % 32];
        *byte         = (uint8_t)(*byte | q[i] << (i / 32 % 4 * 2));
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
enum { LEFT_tq2_0 = 1 };
INLINE void header_tq2_0(const char *const *p, Header *out) { out->d = halves_of_rows(p, offsetof(BlockTQ2_0, d)); }
INLINE void scales_tq2_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p, (void)j, (void)h;
    *out = (PairScales){header->d, _mm256_setzero_ps()};
}

/* Bits 2m and 2m + 1 of 16 bytes belong to the first sub-block of the pair, the next two to the second. */
INLINE void load_tq2_0(const char *p, int j, int h, __m256i q[2]) {
    const BlockTQ2_0 *b  = (const BlockTQ2_0 *)(const void *)p;
    const __m256i     by = _mm256_add_epi32(_mm256_set1_epi32(4 * h), _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2));
    for (int k = 0; k < 2; k++) {
        const __m256i v = _mm256_broadcastsi128_si256(load16(b->qs + 32 * j + 16 * k));
        q[k]            = _mm256_and_si256(_mm256_srlv_epi32(v, by), _mm256_set1_epi8(3));
    }
}

INLINE __m256i sums_tq2_0(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_tq2_0, HALVES, p, j, h, x, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
enum { LEFT_tq2_0 = 1 };
INLINE void scales_tq2_0(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    (void)n_subs;
    out[0].scale = out[1].scale = halves_of_rows(row, at + offsetof(BlockTQ2_0, d));
}

/* Bits 2u and 2u + 1 of 32 bytes belong to sub-block u. */
INLINE void load_tq2_0(const char *p, int n_subs, Kstep *s) {
    const BlockTQ2_0 *b  = (const BlockTQ2_0 *)(const void *)p;
    const __m512i     by = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6), two = _mm512_set1_epi8(3);
    (void)n_subs;
    for (int j = 0; j < 2; j++) {
        const __m512i a = _mm512_broadcast_i32x4(load16(b->qs + 32 * j));
        const __m512i c = _mm512_broadcast_i32x4(load16(b->qs + 32 * j + 16));
        s[j].a          = _mm512_and_si512(_mm512_srlv_epi32(a, by), two);
        s[j].b          = _mm512_and_si512(_mm512_srlv_epi32(c, by), two);
    }
}
#endif
