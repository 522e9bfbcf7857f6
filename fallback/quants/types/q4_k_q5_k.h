/* q4_k_q5_k.h - Q4_K and Q5_K: 256 elements of 4 or 5 bits in eight sub-blocks, whose scales and minima have 6 bits. */
#ifndef FALLBACK_QUANTS_TYPES_Q4_K_Q5_K_H
#define FALLBACK_QUANTS_TYPES_Q4_K_Q5_K_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = d * sc[j] * q[i] - dmin * m[j] for sub-block j = i / 32 of 8. Byte qs[32p + i] holds two sub-blocks:
 * element i of sub-block 2p in the low nibble, element i of sub-block 2p + 1 in the high one. scales[] holds sc and
 * m in 6 bits each:
 *
 *     byte j       (0..3)   bits 0-5 sc[j]     bits 6-7 high bits of sc[j+4]
 *     byte 4 + j   (0..3)   bits 0-5 m[j]      bits 6-7 high bits of m[j+4]
 *     byte 8 + j   (0..3)   low nibble: low bits of sc[j+4], high nibble: low bits of m[j+4] */
typedef struct BlockQ4_K {
    uint16_t d, dmin;
    uint8_t  scales[12];
    uint8_t  qs[128];
} BlockQ4_K;

/* As Q4_K, with a fifth bit. */
typedef struct BlockQ5_K {
    uint16_t d, dmin;
    uint8_t  scales[12];
    uint8_t  qh[32]; /* bit j of byte i: fifth bit of element i of sub-block j */
    uint8_t  qs[128];
} BlockQ5_K;

/* The scale and the minimum of sub-block j, of 6 bits each (BlockQ4_K). Example: sub-block 5 has the low nibble of
 * s[9] and the top bits of s[1] as its scale, the high nibble of s[9] and the top bits of s[5] as its minimum. */
RP_BODY void rp_six_bits(const uint8_t *s, int j, uint8_t *scale, uint8_t *min) {
    *scale = (uint8_t)(j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
    *min   = (uint8_t)(j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4);
}

RP_BODY void rp_scales_k(const uint8_t *s, float d, float dmin, float *scale, float *min) {
    for (int j = 0; j < 8; j++) {
        uint8_t sc, m;
        rp_six_bits(s, j, &sc, &m);
        rp_both_sum_blocks(scale + 2 * j, min + 2 * j, d * (float)sc, -dmin * (float)m);
    }
}

RP_BODY void q4_k_block(const BlockQ4_K *b, uint8_t *q, float *scale, float *min) {
    for (int j = 0; j < 4; j++) rp_nibbles(b->qs + 32 * j, 32, q + 64 * j);
    rp_scales_k(b->scales, rp_f16_to_f32(b->d), rp_f16_to_f32(b->dmin), scale, min);
}

/* As q4_k; bits 2j and 2j + 1 of qh[i] are the fifth bits of element i of sub-blocks 2j and 2j + 1. */
RP_BODY void q5_k_block(const BlockQ5_K *b, uint8_t *q, float *scale, float *min) {
    for (int j = 0; j < 4; j++) {
        rp_nibbles(b->qs + 32 * j, 32, q + 64 * j);
        for (int i = 0; i < 32; i++) {
            q[64 * j + i]      = (uint8_t)(q[64 * j + i] | (b->qh[i] >> (2 * j) & 1) << 4);
            q[64 * j + 32 + i] = (uint8_t)(q[64 * j + 32 + i] | (b->qh[i] >> (2 * j + 1) & 1) << 4);
        }
    }
    rp_scales_k(b->scales, rp_f16_to_f32(b->d), rp_f16_to_f32(b->dmin), scale, min);
}

/* q[i] = round((x[i] + m) / d) in 0..top, for 32 elements. Returns the weighted squared error. */
static inline float rp_k_levels(const float *x, const float *w, float d, float m, int top, uint8_t *q) {
    const float id    = rp_inverse(d);
    float       error = 0.0f;
    for (int i = 0; i < 32; i++) {
        q[i]            = (uint8_t)rp_nearest((x[i] + m) * id, 0, top);
        const float off = d * (float)q[i] - m - x[i];
        error += w[i] * off * off;
    }
    return error;
}

/* Replaces the 6-bit scale *sc and minimum *m by the neighbours (+-1) with the smallest error. */
static inline void rp_k_choose(const float *x, const float *w, float d, float dmin, int top, int *sc, int *m) {
    const int wanted_sc = *sc, wanted_m = *m;
    float     best = INFINITY;
    uint8_t   q[32];
    for (int a = wanted_sc - 1; a <= wanted_sc + 1; a++)
        for (int b = wanted_m - 1; b <= wanted_m + 1; b++) {
            if (a < 0 || a > 63 || b < 0 || b > 63) continue;
            const float error = rp_k_levels(x, w, d * (float)a, dmin * (float)b, top, q);
            if (error < best) best = error, *sc = a, *m = b;
        }
}

/* Q4_K and Q5_K: writes d, dmin and the 6-bit scales and minima (`fields`, BlockQ4_K.scales), and the q of all 256
 * elements. */
static inline void rp_quantize_affine_k(const float *x, const float *w, int top, uint8_t *fields, uint16_t *d16,
                                        uint16_t *dmin16, uint8_t *q) {
    float scale[8], min[8], top_scale = 0.0f, top_min = 0.0f;
    for (int j = 0; j < 8; j++) {
        rp_fit_affine(x + 32 * j, w + 32 * j, (AffineForm){.n = 32, .top = top}, &scale[j], &min[j]);
        top_scale = scale[j] > top_scale ? scale[j] : top_scale;
        top_min   = min[j] > top_min ? min[j] : top_min;
    }
    *d16          = rp_f32_to_f16(top_scale / 63.0f);
    *dmin16       = rp_f32_to_f16(top_min / 63.0f);
    const float d = rp_f16_to_f32(*d16), dmin = rp_f16_to_f32(*dmin16);
    memset(fields, 0, 12);
    for (int j = 0; j < 8; j++) {
        int sc = rp_nearest(scale[j] * rp_inverse(d), 0, 63), m = rp_nearest(min[j] * rp_inverse(dmin), 0, 63);
        rp_k_choose(x + 32 * j, w + 32 * j, d, dmin, top, &sc, &m);
        if (j < 4) {
            fields[j]     = (uint8_t)(fields[j] | sc);
            fields[j + 4] = (uint8_t)(fields[j + 4] | m);
        } else {
            fields[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
            fields[j - 4] = (uint8_t)(fields[j - 4] | (sc >> 4) << 6);
            fields[j]     = (uint8_t)(fields[j] | (m >> 4) << 6);
        }
        (void)rp_k_levels(x + 32 * j, w + 32 * j, d * (float)sc, dmin * (float)m, top, q + 32 * j);
    }
}

static inline void quantize_q4_k(const float *x, const float *w, void *out) {
    BlockQ4_K *b = out;
    uint8_t    q[256];
    rp_quantize_affine_k(x, w, 15, b->scales, &b->d, &b->dmin, q);
    for (int j = 0; j < 4; j++) rp_put_nibbles(q + 64 * j, 32, b->qs + 32 * j);
}

static inline void quantize_q5_k(const float *x, const float *w, void *out) {
    BlockQ5_K *b = out;
    uint8_t    q[256];
    rp_quantize_affine_k(x, w, 31, b->scales, &b->d, &b->dmin, q);
    memset(b->qh, 0, sizeof b->qh);
    for (int j = 0; j < 4; j++) rp_put_nibbles(q + 64 * j, 32, b->qs + 32 * j);
    for (int i = 0; i < 256; i++) b->qh[i % 32] = (uint8_t)(b->qh[i % 32] | (q[i] >> 4) << (i / 32));
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
/* Transposes a 4 x 4 matrix of words. */
INLINE void transpose4(__m128i v[4]) {
    const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]);
    const __m128i c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm_unpacklo_epi64(a, b);
    v[1] = _mm_unpackhi_epi64(a, b);
    v[2] = _mm_unpacklo_epi64(c, d);
    v[3] = _mm_unpackhi_epi64(c, d);
}

INLINE __m256i twice(__m128i v) { return _mm256_inserti128_si256(_mm256_castsi128_si256(v), v, 1); }

/* The first 16 bytes of four super-blocks, transposed: w[0] is d and dmin of each row, w[1] to w[3] scales[12]
 * (BlockQ4_K). The 6-bit fields become factor[0..1], the scales of both k-steps, and factor[2..3], the minima. */
INLINE void header_k(const char *const *p, Header *out) {
    const __m128i six = _mm_set1_epi8(0x3f), four = _mm_set1_epi8(0x0f), two = _mm_set1_epi8(0x30);
    __m128i       w[ROWS];
    for (int r = 0; r < ROWS; r++) w[r] = load16(p[r]);
    transpose4(w);
    const __m256  both  = _mm256_cvtph_ps(apart(w[0]));
    const __m128i upper = _mm_and_si128(_mm_srli_epi16(w[1], 2), two);
    const __m128i under = _mm_and_si128(_mm_srli_epi16(w[2], 2), two);
    out->d              = _mm256_permute2f128_ps(both, both, 0x00);
    out->dmin           = _mm256_xor_ps(_mm256_permute2f128_ps(both, both, 0x11), _mm256_set1_ps(-0.0f));
    out->factor[0]      = _mm_and_si128(w[1], six);
    out->factor[1]      = _mm_or_si128(_mm_and_si128(w[3], four), upper);
    out->factor[2]      = _mm_and_si128(w[2], six);
    out->factor[3]      = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(w[3], 4), four), under);
}

/* The factors of pair h as floats, in the order of PairScales: byte 4r + 2h of `bytes`, then byte 4r + 2h + 1. A
 * shuffle index of 0xff gives a zero byte, which extends each byte to 32 bits. */
INLINE __m256 factors_k(__m128i bytes, int h) {
    const __m256i first = _mm256_setr_epi32((int)0xffffff00, (int)0xffffff04, (int)0xffffff08, (int)0xffffff0c,
                                            (int)0xffffff01, (int)0xffffff05, (int)0xffffff09, (int)0xffffff0d);
    const __m256i at    = _mm256_or_si256(first, _mm256_set1_epi32(2 * h));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(twice(bytes), at));
}

INLINE void scales_k(const Header *header, int j, int h, PairScales *out) {
    out->scale = _mm256_mul_ps(header->d, factors_k(header->factor[j], h));
    out->min   = _mm256_mul_ps(header->dmin, factors_k(header->factor[2 + j], h));
}

/* 32 bytes of qs are a pair, as WHOLE: low nibbles one sub-block, high nibbles the next. */
INLINE void load_q4_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ4_K *block = (const BlockQ4_K *)(const void *)p;
    const __m256i    v     = load32(block->qs + 64 * j + 32 * h);
    q[0]                   = low_nibbles(v);
    q[1]                   = high_nibbles(v);
}

INLINE void header_q4_k(const char *const *p, Header *out) { header_k(p, out); }

INLINE void scales_q4_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    scales_k(header, j, h, out);
}

/* 16 in each byte whose bit m is set. m is the sub-block's index in the block. */
INLINE __m256i fifth_bits_k(__m256i v, int m) {
    const __m256i moved = m < 4 ? _mm256_slli_epi16(v, 4 - m) : _mm256_srli_epi16(v, m - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

INLINE void load_q5_k(const char *p, int j, int h, __m256i q[2]) {
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m256i    v = load32(block->qs + 64 * j + 32 * h), qh = load32(block->qh);
    q[0] = _mm256_or_si256(low_nibbles(v), fifth_bits_k(qh, 4 * j + 2 * h));
    q[1] = _mm256_or_si256(high_nibbles(v), fifth_bits_k(qh, 4 * j + 2 * h + 1));
}

INLINE void header_q5_k(const char *const *p, Header *out) { header_k(p, out); }

INLINE void scales_q5_k(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)p;
    scales_k(header, j, h, out);
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
/* d * byte u % 4 of each word, unsigned. */
INLINE __m256 times_byte(__m256 d, __m256i words, int u) {
    const __m256i byte = u % 4 == 3 ? _mm256_srli_epi32(words, 24)
                                    : _mm256_and_si256(_mm256_srli_epi32(words, 8 * (u % 4)), _mm256_set1_epi32(255));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(byte));
}

/* The first 16 bytes of a block: word 0 is d and dmin, words 1 to 3 are scales[12] (BlockQ4_K). Byte j of scales[g]
 * is the scale of sub-block 4g + j, byte j of minima[g] its minimum. */
INLINE void begin_q4_k(const SideRows *rows, Load *l) {
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f), two = _mm256_set1_epi8(0x30);
    __m256i       w[4];
    __m256        d, dmin;
    words_of_rows(rows, 0, w);
    two_halves_of_rows(w[0], &d, &dmin);
    const __m256i scales[2] = {_mm256_and_si256(w[1], six),
                               bits_and_all(_mm256_srli_epi32(w[1], 2), two, _mm256_and_si256(w[3], four))};
    const __m256i minima[2] = {
        _mm256_and_si256(w[2], six),
        bits_and_all(_mm256_srli_epi32(w[2], 2), two, _mm256_and_si256(_mm256_srli_epi32(w[3], 4), four))};
    dmin = _mm256_xor_ps(dmin, _mm256_set1_ps(-0.0f));
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) {
        l->scale[u] = times_byte(d, scales[u / 4], u);
        l->min[u]   = times_byte(dmin, minima[u / 4], u);
    }
}
INLINE void step_q4_k(const SideRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, offsetof(BlockQ4_K, qs) + 32 * (size_t)step, l->raw);
}
INLINE __m256i quad_q4_k(const Load *l, int step, int v, int k) {
    (void)step;
    return v == 0 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k]);
}

INLINE void begin_q5_k(const SideRows *rows, Load *l) {
    begin_q4_k(rows, l);
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qh), l->fifth);
}
INLINE void step_q5_k(const SideRows *rows, int step, Load *l) {
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qs) + 32 * (size_t)step, l->raw);
}
/* Moves bit u of each byte to bit 4. Other bits of the word move along and must be masked off. */
INLINE __m256i bit_at_4(__m256i v, int u) { return u < 4 ? _mm256_slli_epi16(v, 4 - u) : _mm256_srli_epi16(v, u - 4); }
INLINE __m256i quad_q5_k(const Load *l, int step, int v, int k) {
    return bits_and_all(bit_at_4(l->fifth[k], 2 * step + v), _mm256_set1_epi8(16), quad_q4_k(l, step, v, k));
}
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
/* Byte u of the lanes of sub-block u, shifted to the lowest byte. */
INLINE __m512i sub_bytes_down(__m512i v) {
    const __m512i by = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24);
    return _mm512_and_si512(_mm512_srlv_epi32(v, by), _mm512_set1_epi32(255));
}

/* The first 16 bytes of a block are d, dmin and scales[12] (BlockQ4_K). The 6-bit fields become four words of bytes
 * in each quarter, one byte a sub-block:
 *
 *     word      0                  1                  2                  3
 *     `bytes`   scales, sub 0-3    minima, sub 0-3    scales, sub 4-7    minima, sub 4-7
 *     `lower`   w1 & 3f            w2 & 3f            w3 & 0f            w3 >> 4 & 0f
 *     `upper`   0                  0                  w1 >> 2 & 30       w2 >> 2 & 30
 */
INLINE void scales_q4_k(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    const __m512i head  = bytes_of_rows(row, at);
    const __m512i lower = _mm512_and_si512(
        _mm512_srlv_epi32(_mm512_shuffle_epi32(head, 0xf9), _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4))),
        _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x3f3f3f3f, 0x0f0f0f0f, 0x0f0f0f0f)));
    const __m512i upper = _mm512_and_si512(_mm512_srli_epi32(_mm512_shuffle_epi32(head, 0x90), 2),
                                           _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0x30303030, 0x30303030)));
    const __m512i bytes = _mm512_or_si512(lower, upper), d = word_by_sub_and_row(head, 0);
    const __m512  scale = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(d));
    const __m512  minus = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(d, 16)));
    (void)n_subs;
    for (int h = 0; h < 2; h++) {
        const __m512i of_scale = sub_bytes_down(word_by_sub_and_row(bytes, 2 * h));
        const __m512i of_min   = sub_bytes_down(word_by_sub_and_row(bytes, 2 * h + 1));
        out[h].scale           = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(of_scale));
        out[h].min             = _mm512_mul_ps(_mm512_mul_ps(minus, _mm512_set1_ps(-1.0f)), _mm512_cvtepi32_ps(of_min));
    }
}

/* 64 bytes of qs are a k-step: low nibbles of bytes 0-31 are sub-block 0, their high nibbles sub-block 1, bytes 32-63
 * sub-blocks 2 and 3. */
INLINE void nibbles_k(const uint8_t *qs, __m512i *a, __m512i *b) {
    const __m512i v = _mm512_loadu_si512(qs), low = low_nibbles(v), high = high_nibbles(v);
    *a = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), high);
    *b = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), high);
}

INLINE void load_q4_k(const char *p, int n_subs, Kstep *s) {
    (void)n_subs;
    const BlockQ4_K *block = (const BlockQ4_K *)(const void *)p;
    for (int h = 0; h < 2; h++) nibbles_k(block->qs + 64 * h, &s[h].a, &s[h].b);
}

INLINE void scales_q5_k(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    scales_q4_k(row, at, n_subs, out);
}

INLINE void load_q5_k(const char *p, int n_subs, Kstep *s) {
    (void)n_subs;
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    const __m512i    a = _mm512_broadcast_i32x4(load16(block->qh)), sixteen = _mm512_set1_epi8(16);
    const __m512i    b = _mm512_broadcast_i32x4(load16(block->qh + 16));
    for (int h = 0; h < 2; h++) {
        /* bit 4h + u of byte i: fifth bit of element i of sub-block 4h + u, tested in place without a shift */
        const __m512i low =
            _mm512_setr_epi64(0x0101010101010101, 0x0101010101010101, 0x0202020202020202, 0x0202020202020202,
                              0x0404040404040404, 0x0404040404040404, 0x0808080808080808, 0x0808080808080808);
        const __m512i bit = h == 0 ? low : _mm512_slli_epi16(low, 4);
        nibbles_k(block->qs + 64 * h, &s[h].a, &s[h].b);
        s[h].a = _mm512_mask_add_epi8(s[h].a, _mm512_test_epi8_mask(a, bit), s[h].a, sixteen);
        s[h].b = _mm512_mask_add_epi8(s[h].b, _mm512_test_epi8_mask(b, bit), s[h].b, sixteen);
    }
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
/* d * byte u % 4 of each word, unsigned. */
INLINE __m512 times_byte(__m512 d, __m512i words, int u) {
    const __m512i byte =
        u % 4 == 3 ? _mm512_srli_epi32(words, 24)
                   : _mm512_and_si512(_mm512_srli_epi32(words, 8 * (unsigned)(u % 4)), _mm512_set1_epi32(255));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(byte));
}

/* The first 16 bytes of a block: word 0 is d and dmin, words 1 to 3 are scales[12] (BlockQ4_K). Byte j of scales[g]
 * is the scale of sub-block 4g + j, byte j of minima[g] its minimum. */
INLINE void begin_q4_k(const PanelRows *rows, int n_subs, Load *l) {
    const __m512i six = _mm512_set1_epi8(0x3f), four = _mm512_set1_epi8(0x0f), two = _mm512_set1_epi8(0x30);
    __m512i       w[4];
    __m512        d, dmin;
    (void)n_subs;
    words_of_rows(rows, 0, w);
    two_halves_of_rows(w[0], &d, &dmin);
    const __m512i scales[2] = {_mm512_and_si512(w[1], six),
                               bits_and_all(_mm512_srli_epi32(w[1], 2), two, _mm512_and_si512(w[3], four))};
    const __m512i minima[2] = {
        _mm512_and_si512(w[2], six),
        bits_and_all(_mm512_srli_epi32(w[2], 2), two, _mm512_and_si512(_mm512_srli_epi32(w[3], 4), four))};
    dmin = _mm512_mul_ps(dmin, _mm512_set1_ps(-1.0f));
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) {
        l->scale[u] = times_byte(d, scales[u / 4], u);
        l->min[u]   = times_byte(dmin, minima[u / 4], u);
    }
}
INLINE void step_q4_k(const PanelRows *rows, int step, Load *l) {
    const size_t at = offsetof(BlockQ4_K, qs) + 32 * (size_t)step;
    eight_words_of_rows(rows, at, l->raw);
}
INLINE __m512i quad_q4_k(const Load *l, int step, int v, int k) {
    (void)step;
    return v == 0 ? low_nibbles(l->raw[k]) : high_nibbles(l->raw[k]);
}

INLINE void begin_q5_k(const PanelRows *rows, int n_subs, Load *l) {
    begin_q4_k(rows, n_subs, l);
    eight_words_of_rows(rows, offsetof(BlockQ5_K, qh), l->fifth);
}
INLINE void step_q5_k(const PanelRows *rows, int step, Load *l) {
    const size_t at = offsetof(BlockQ5_K, qs) + 32 * (size_t)step;
    eight_words_of_rows(rows, at, l->raw);
}
/* Moves bit u of each byte to bit 4. Other bits of the word move along and must be masked off. */
INLINE __m512i bit_at_4(__m512i v, int u) {
    switch (u) { /* clang takes only literal shift counts */
    case 0:
        return _mm512_slli_epi16(v, 4);
    case 1:
        return _mm512_slli_epi16(v, 3);
    case 2:
        return _mm512_slli_epi16(v, 2);
    case 3:
        return _mm512_slli_epi16(v, 1);
    case 5:
        return _mm512_srli_epi16(v, 1);
    case 6:
        return _mm512_srli_epi16(v, 2);
    case 7:
        return _mm512_srli_epi16(v, 3);
    default:
        return v;
    }
}
INLINE __m512i quad_q5_k(const Load *l, int step, int v, int k) {
    return bits_and_all(bit_at_4(l->fifth[k], 2 * step + v), _mm512_set1_epi8(16), quad_q4_k(l, step, v, k));
}
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
INLINE float32x4_t times(float32x4_t d, int lane, uint16x4_t v) {
    return vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(v)), d[lane]);
}

/* The first 16 bytes of a block are d, dmin and the words w0, w1, w2 of scales[12] (BlockQ4_K). The 6-bit fields
 * become four words of bytes, one byte a sub-block:
 *
 *     word      0                  1                  2                  3
 *     `bytes`   scales, sub 0-3    minima, sub 0-3    scales, sub 4-7    minima, sub 4-7
 *     `lower`   w0 & 3f            w1 & 3f            w2 & 0f            w2 >> 4 & 0f
 *     `upper`   0                  0                  w0 >> 2 & 30       w1 >> 2 & 30 */
INLINE void scales_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)n_subs;
    static const int32_t  by[4]    = {0, 0, 0, -4};
    static const uint32_t masks[4] = {0x3f3f3f3f, 0x3f3f3f3f, 0x0f0f0f0f, 0x0f0f0f0f};
    const uint32x4_t      v = vreinterpretq_u32_u8(load16(p)), w012 = vextq_u32(v, v, 1);
    const uint32x4_t      w0122      = vcopyq_laneq_u32(w012, 3, v, 3);
    const uint32x4_t      lower      = vandq_u32(vshlq_u32(w0122, vld1q_s32(by)), vld1q_u32(masks));
    const uint32x4_t      w01        = vshrq_n_u32(vextq_u32(vdupq_n_u32(0), v, 3), 2);
    const uint32x4_t      upper_zero = vextq_u32(vdupq_n_u32(0), vdupq_n_u32(0x30303030), 2);
    const uint8x16_t      bytes      = vreinterpretq_u8_u32(vorrq_u32(lower, vandq_u32(w01, upper_zero)));
    const uint16x8_t      first = vmovl_u8(vget_low_u8(bytes)), second = vmovl_high_u8(bytes);
    const float32x4_t     d = vcvt_f32_f16(vreinterpret_f16_u32(vget_low_u32(v))), minus = vnegq_f32(d);
    scale[0] = times(d, 0, vget_low_u16(first)), min[0] = times(minus, 1, vget_high_u16(first));
    scale[1] = times(d, 0, vget_low_u16(second)), min[1] = times(minus, 1, vget_high_u16(second));
}

enum { LEFT_q4_k = 0, STRIDED_q4_k = 0 };
INLINE void scales_q4_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    scales_k(p, n_subs, scale, min);
}
/* 32 bytes of qs: low nibbles are one sub-block, high nibbles the next. */
INLINE void quarter_q4_k(const char *p, int quarter, int8x16_t *v) {
    const uint8_t *qs = ((const BlockQ4_K *)(const void *)p)->qs + 32 * quarter;
    nibbles(load16(qs), &v[0], &v[2]);
    nibbles(load16(qs + 16), &v[1], &v[3]);
}

/* Moves bit `from` of each byte to bit 4. */
INLINE uint8x16_t bit_to_4(uint8x16_t v, int from) { return from < 4 ? v << (4 - from) : v >> (from - 4); }

enum { LEFT_q5_k = 0, STRIDED_q5_k = 0 };
INLINE void scales_q5_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    scales_k(p, n_subs, scale, min);
}
INLINE void quarter_q5_k(const char *p, int quarter, int8x16_t *v) {
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    nibbles(load16(block->qs + 32 * quarter), &v[0], &v[2]);
    nibbles(load16(block->qs + 32 * quarter + 16), &v[1], &v[3]);
    for (int k = 0; k < 4; k++)
        v[k] = with_bits(v[k], 16, bit_to_4(load16(block->qh + 16 * (k % 2)), 2 * quarter + k / 2));
}
#endif
