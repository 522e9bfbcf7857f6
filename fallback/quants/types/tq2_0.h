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
