/* iq4.h - IQ4_NL and IQ4_XS: 16 values of 8 bits by 4-bit index.
 *
 *     IQ4_NL   x[i] = d * value[q[i]]
 *     IQ4_XS   x[i] = d * (scale[i/32] - 32) * value[q[i]], scales of 6 bits
 *
 * Byte k of the 16 bytes of 32 elements has the indices of elements k and 16 + k in its low and its high nibble. */
#ifndef FALLBACK_QUANTS_TYPES_IQ4_H
#define FALLBACK_QUANTS_TYPES_IQ4_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

#define RP_IQ4_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

static const int8_t rp_iq4_values[16] = {RP_IQ4_VALUES};

typedef struct BlockIQ4_NL {
    uint16_t d;
    uint8_t  qs[16];
} BlockIQ4_NL;

RP_BODY void expand_iq4_nl(const BlockIQ4_NL *b, int i, int8_t *v) {
    (void)i;
    rp_lookup_nibbles(b->qs, rp_iq4_values, v);
}

RP_BODY void sub_scales_iq4_nl(const BlockIQ4_NL *b, float *scale, float *min) {
    (void)min;
    scale[0] = rp_f16_to_f32(b->d);
}

/* Bits 0-3 of scale j are in nibble j % 2 of scales_l[j / 2], bits 4-5 in bits 2j and 2j + 1 of scales_h. */
typedef struct BlockIQ4_XS {
    uint16_t d, scales_h;
    uint8_t  scales_l[4], qs[128];
} BlockIQ4_XS;

RP_BODY void expand_iq4_xs(const BlockIQ4_XS *b, int i, int8_t *v) {
    rp_lookup_nibbles(b->qs + 16 * i, rp_iq4_values, v);
}

RP_BODY uint16_t factors_iq4_xs(const BlockIQ4_XS *b, int8_t *s) {
    for (int j = 0; j < 8; j++) {
        const int low = b->scales_l[j / 2] >> (j % 2 * 4) & 15, high = b->scales_h >> (2 * j) & 3;
        s[j] = (int8_t)((low | high << 4) - 32);
    }
    return b->d;
}
RP_FEW_VALUES(IQ4_XS, iq4_xs, 1.0f, 0, 0, RP_IQ4_VALUES)

#ifdef RP_X86
RP_TARGET_AVX2 RP_BODY __m256i expand_iq4_nl_avx2(const BlockIQ4_NL *b, int i) {
    return (void)i, rp_lookup_avx2(rp_iq4_values, rp_nibbles_avx2(b->qs));
}

/* Not called: a part is 8 sub-blocks, and a block is one. */
RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq4_nl_avx2(const BlockIQ4_NL *b, int part, __m256 *min) {
    return (void)part, (void)min, rp_times_f16_avx2(b->d, 1.0f, _mm256_set1_epi32(1));
}

RP_TARGET_AVX2 RP_BODY __m256 sub_scales_iq4_xs_avx2(const BlockIQ4_XS *b, int part, __m256 *min) {
    const __m256i by   = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(b->scales_h), by), _mm256_set1_epi32(3));
    const __m256i six  = _mm256_or_si256(rp_eight_nibbles_avx2(rp_word_at(b->scales_l)), _mm256_slli_epi32(high, 4));
    (void)part, (void)min;
    return rp_times_f16_avx2(b->d, 1.0f, _mm256_sub_epi32(six, _mm256_set1_epi32(32)));
}

RP_TARGET_AVX2 RP_BODY __m256i expand_iq4_xs_avx2(const BlockIQ4_XS *b, int i) {
    return rp_lookup_avx2(rp_iq4_values, rp_nibbles_avx2(b->qs + 16 * i));
}
#endif

#ifdef __aarch64__
RP_BODY void rp_iq4_neon(const uint8_t *qs, int8x16_t *v) {
    const int8x16_t  values = vld1q_s8(rp_iq4_values);
    const uint8x16_t q      = vld1q_u8(qs);
    v[0]                    = vqtbl1q_s8(values, vandq_u8(q, vdupq_n_u8(15)));
    v[1]                    = vqtbl1q_s8(values, vshrq_n_u8(q, 4));
}
RP_BODY void expand_iq4_nl_neon(const BlockIQ4_NL *b, int i, int8x16_t *v) { (void)i, rp_iq4_neon(b->qs, v); }
RP_BODY void expand_iq4_xs_neon(const BlockIQ4_XS *b, int i, int8x16_t *v) { rp_iq4_neon(b->qs + 16 * i, v); }
#endif

/* q[i] is the index of the value nearest to x[i] / d, of 32 elements. Returns the weighted squared error. The index
 * counts the midpoints between values that lie below x[i] / d: compilers vectorise this. */
static inline float rp_iq4_nearest(const float *x, const float *w, float d, uint8_t *q) {
    const float id = rp_inverse(d);
    float       v[32], error = 0.0f;
    int32_t     above[32] = {0};
    for (int i = 0; i < 32; i++) v[i] = x[i] * id;
    for (int k = 0; k < 15; k++) {
        const float middle = 0.5f * (float)(rp_iq4_values[k] + rp_iq4_values[k + 1]);
        for (int i = 0; i < 32; i++) above[i] += v[i] > middle;
    }
    for (int i = 0; i < 32; i++) {
        const float left = d * (float)rp_iq4_values[above[i]] - x[i];
        q[i]             = (uint8_t)above[i];
        error += w[i] * left * left;
    }
    return error;
}

/* Returns the scale with the smallest error. Candidates are 31 scales around each of the two that take the largest
 * element to an end of the table. Each is replaced by the least-squares scale of its indices. */
static inline float rp_iq4_scale(const float *x, const float *w) {
    const float top  = rp_largest(x, 32);
    float       best = INFINITY, d = 0.0f;
    for (int end = -127; end <= 113; end += 240)
        for (int t = -15; t <= 15; t++) {
            uint8_t q[32];
            float   sqx = 0.0f, sqq = 0.0f;
            (void)rp_iq4_nearest(x, w, top / (float)(end + t), q);
            for (int i = 0; i < 32; i++) {
                const float v = (float)rp_iq4_values[q[i]];
                sqx += w[i] * v * x[i], sqq += w[i] * v * v;
            }
            const float error = rp_iq4_nearest(x, w, sqx / sqq, q); /* no value is 0 */
            if (error < best) best = error, d = sqx / sqq;
        }
    return d;
}

static inline void quantize_iq4_nl(const float *x, const float *w, void *out) {
    BlockIQ4_NL *b = out;
    uint8_t      q[32];
    b->d = rp_f32_to_f16(rp_iq4_scale(x, w));
    (void)rp_iq4_nearest(x, w, rp_f16_to_f32(b->d), q);
    rp_put_nibbles(q, 16, b->qs);
}

static inline void quantize_iq4_xs(const float *x, const float *w, void *out) {
    BlockIQ4_XS *b = out;
    float        scale[8];
    for (int j = 0; j < 8; j++) scale[j] = rp_iq4_scale(x + 32 * j, w + 32 * j);
    memset(b, 0, sizeof *b);
    b->d          = rp_f32_to_f16(rp_largest(scale, 8) / -32.0f);
    const float d = rp_f16_to_f32(b->d);
    for (int j = 0; j < 8; j++) {
        const int wanted = rp_nearest(scale[j] * rp_inverse(d), -32, 31);
        float     best   = INFINITY;
        int       chosen = wanted;
        uint8_t   q[32];
        for (int s = wanted - 1; s <= wanted + 1; s++) {
            if (s < -32 || s > 31) continue;
            const float error = rp_iq4_nearest(x + 32 * j, w + 32 * j, d * (float)s, q);
            if (error < best) best = error, chosen = s;
        }
        (void)rp_iq4_nearest(x + 32 * j, w + 32 * j, d * (float)chosen, q);
        rp_put_nibbles(q, 16, b->qs + 16 * j);
        b->scales_l[j / 2] = (uint8_t)(b->scales_l[j / 2] | ((chosen + 32) & 15) << (j % 2 * 4));
        b->scales_h        = (uint16_t)(b->scales_h | (chosen + 32) >> 4 << (2 * j));
    }
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
ROW_SCALES(IQ4_NL, iq4_nl)
ROW_SCALES(IQ4_XS, iq4_xs)
enum { LEFT_iq4_nl = 0, LEFT_iq4_xs = 0 };
INLINE void header_iq4_nl(const char *const *p, Header *out) { no_header(p, out); }
INLINE void header_iq4_xs(const char *const *p, Header *out) { scales_of_rows_iq4_xs(p, out); }

/* Two products fit in 16 bits, four do not: 127 * 127 * 2. */
INLINE __m256i iq4_sums(LoadPair *load, const char *const *p, int j, int h, const ColumnPair *x) {
    const __m256i values = _mm256_broadcastsi128_si256(load16(rp_iq4_values));
    __m256i       v[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256i q[2];
        load(p[r], j, h, q);
        v[r] = _mm256_add_epi32(sums_of_pairs(signed_products(_mm256_shuffle_epi8(values, q[0]), x, 0)),
                                sums_of_pairs(signed_products(_mm256_shuffle_epi8(values, q[1]), x, 1)));
    }
    return sums_of_32(v);
}

INLINE void load_iq4_nl(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockIQ4_NL), 2, h, q);
}
INLINE __m256i sums_iq4_nl(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, iq4_sums(load_iq4_nl, p, j, h, x);
}

INLINE void load_iq4_xs(const char *p, int j, int h, __m256i q[2]) {
    const __m256i v = load32(((const BlockIQ4_XS *)(const void *)p)->qs + 32 * (2 * j + h));
    q[0]            = low_nibbles(v);
    q[1]            = high_nibbles(v);
}
INLINE __m256i sums_iq4_xs(const char *const *p, const Header *header, int j, int h, const ColumnPair *x) {
    return (void)header, iq4_sums(load_iq4_xs, p, j, h, x);
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
ROW_SCALES(IQ4_NL, iq4_nl)
ROW_SCALES(IQ4_XS, iq4_xs)
enum { LEFT_iq4_nl = RP_IQ4_NL_OFFSET, LEFT_iq4_xs = RP_IQ4_XS_OFFSET };

/* The values, raised by 128. */
INLINE Kstep iq4_values(__m512i v) {
    const __m512i signed_values = _mm512_broadcast_i32x4(load16(rp_iq4_values));
    const __m512i values        = _mm512_xor_si512(signed_values, _mm512_set1_epi8(-128));
    return (Kstep){.a = _mm512_shuffle_epi8(values, low_nibbles(v)), .b = _mm512_shuffle_epi8(values, high_nibbles(v))};
}

INLINE void load_iq4_nl(const char *p, int n_subs, Kstep *s) {
    *s = iq4_values(bytes_of_blocks(p + 2, sizeof(BlockIQ4_NL), n_subs));
}

INLINE void load_iq4_xs(const char *p, int n_subs, Kstep *s) {
    const BlockIQ4_XS *b = (const BlockIQ4_XS *)(const void *)p;
    (void)n_subs;
    for (int j = 0; j < 2; j++) s[j] = iq4_values(_mm512_loadu_si512(b->qs + 64 * j));
}
#endif
