/* q2_0.h - Q2_0: x[i] = d * (q[i] - 1) with q from 0 to 3. */
#ifndef FALLBACK_QUANTS_TYPES_Q2_0_H
#define FALLBACK_QUANTS_TYPES_Q2_0_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* Four blocks of ggml, of 64 elements. Element 4k + n of one has bits 2n and 2n + 1 of qs[k]. */
typedef struct BlockQ2_0 {
    struct {
        uint16_t d;
        uint8_t  qs[16];
    } of[4];
} BlockQ2_0;

RP_BODY void expand_q2_0(const BlockQ2_0 *b, int i, int8_t *v) {
    const uint8_t *qs = b->of[i / 2].qs + i % 2 * 8;
    for (int k = 0; k < 32; k++) v[k] = (int8_t)((qs[k / 4] >> (k % 4 * 2) & 3) - 1);
}
RP_EXPAND_NEON(Q2_0, q2_0)

RP_BODY void sub_scales_q2_0(const BlockQ2_0 *b, float *scale, float *min) {
    (void)min;
    for (int u = 0; u < 8; u++) scale[u] = rp_f16_to_f32(b->of[u / 2].d);
}

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i expand_q2_0_avx2(const BlockQ2_0 *b, int i) {
    uint64_t bytes;
    memcpy(&bytes, b->of[i / 2].qs + i % 2 * 8, sizeof bytes);
    /* byte k four times, in each of the words of 32 bits, then shifted by 0, 2, 4 and 6 */
    const __m256i word = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    const __m256i low  = _mm256_or_si256(word, _mm256_slli_epi32(word, 6));
    const __m256i all  = _mm256_or_si256(low, _mm256_slli_epi32(low, 12));
    return _mm256_sub_epi8(_mm256_and_si256(all, _mm256_set1_epi8(3)), _mm256_set1_epi8(1));
}

RP_TARGET_AVX2 RP_BODY __m256 sub_scales_q2_0_avx2(const BlockQ2_0 *b, int part, __m256 *min) {
    const __m128 d = _mm_cvtph_ps(
        _mm_setr_epi16((short)b->of[0].d, (short)b->of[1].d, (short)b->of[2].d, (short)b->of[3].d, 0, 0, 0, 0));
    (void)part, (void)min;
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(d), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
#endif

/* A scale of either sign may be the best: the levels are -1, 0, 1 and 2. */
static inline void quantize_q2_0(const float *x, const float *w, void *out) {
    BlockQ2_0 *b = out;
    memset(b, 0, sizeof *b);
    for (int h = 0; h < 4; h++) {
        b->of[h].d     = rp_f32_to_f16(-rp_fit_symmetric(x + 64 * h, w + 64 * h, 64, 2));
        const float id = rp_inverse(rp_f16_to_f32(b->of[h].d));
        for (int i = 0; i < 64; i++) {
            const int q        = rp_nearest(x[64 * h + i] * id, -1, 2) + 1;
            b->of[h].qs[i / 4] = (uint8_t)(b->of[h].qs[i / 4] | q << i % 4 * 2);
        }
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
ROW_SCALES(Q2_0, q2_0)
enum { LEFT_q2_0 = 1 };
INLINE void header_q2_0(const char *const *p, Header *out) { scales_of_rows_q2_0(p, out); }

/* A byte four times, in turn with q times 1, 4, 16 and 64. The last two are shifted by four bits; then q times 4 is a
 * quarter of it. */
INLINE void load_q2_0(const char *p, int j, int h, __m256i q[2]) {
    const __m256i of =
        _mm256_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303, 0x08080808, 0x09090909, 0x0a0a0a0a, 0x0b0b0b0b);
    const __m256i one = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0));
    const __m256i v   = _mm256_broadcastsi128_si256(load16(((const BlockQ2_0 *)(const void *)p)->of[2 * j + h].qs));
    for (int k = 0; k < 2; k++) {
        const __m256i all = _mm256_shuffle_epi8(v, _mm256_add_epi8(of, _mm256_set1_epi8((char)(4 * k))));
        const __m256i low = _mm256_blend_epi16(all, _mm256_srli_epi16(all, 4), 0xaa);
        q[k]              = _mm256_shuffle_epi8(one, _mm256_and_si256(low, _mm256_set1_epi16(0x0c03)));
    }
}

INLINE __m256i sums_q2_0(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, unsigned_sums(load_q2_0, HALVES, p, j, h, x, x->offset);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(Q2_0, q2_0)
enum { LEFT_q2_0 = 1 };

/* Four times two bits of 16 bytes. */
INLINE __m512i two_bits(__m128i bytes) {
    const __m512i v = _mm512_cvtepu8_epi32(bytes), low = _mm512_or_si512(v, _mm512_slli_epi32(v, 6));
    return _mm512_and_si512(_mm512_or_si512(low, _mm512_slli_epi32(low, 12)), _mm512_set1_epi8(3));
}

/* A sub-block has 8 bytes: register a gets the first four, and b gets the others. */
INLINE void load_q2_0(const char *p, int n_subs, Kstep *s) {
    const BlockQ2_0 *b = (const BlockQ2_0 *)(const void *)p;
    (void)n_subs;
    for (int j = 0; j < 2; j++) {
        const __m256i two =
            _mm256_inserti128_si256(_mm256_castsi128_si256(load16(b->of[2 * j].qs)), load16(b->of[2 * j + 1].qs), 1);
        const __m256i both = _mm256_permutevar8x32_epi32(two, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
        s[j].a             = two_bits(_mm256_castsi256_si128(both));
        s[j].b             = two_bits(_mm256_extracti128_si256(both, 1));
    }
}
#endif
