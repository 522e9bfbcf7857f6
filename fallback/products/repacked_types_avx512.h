/* repacked_types_avx512.h - loads of repacked weights (repack.h) for AVX-512: for each type the header of a block, the
 * quads of a sub-block, and its scales and minima. */
#ifndef FALLBACK_PRODUCTS_REPACKED_TYPES_AVX512_H
#define FALLBACK_PRODUCTS_REPACKED_TYPES_AVX512_H

#include "fallback/products/blocks_avx512.h"
#include "fallback/products/repack.h"

#ifdef RP_X86

/* Scales and minima of a block of 16 rows, which the sub-blocks of a k-step share. */
typedef struct Header {
    __m512 d, min;
} Header;

typedef void    HeaderOf(const char *block, Header *out);
typedef __m512i QuadOf(const char *block, int u, int j, int k); /* j = u % 4, a constant once unrolled */
typedef __m512  ScaleOf(const char *block, const Header *h, int u);

typedef struct RepackedType {
    HeaderOf *header; /* of a block; of types in blocks of 32 it is called for each sub-block */
    QuadOf   *quad;
    ScaleOf  *scale, *min;
    size_t    bytes; /* of a block of 16 rows */
    int       subs;  /* of a block */
    QuantForm form;
} RepackedType;

INLINE __m512 sixteen_halves(const uint16_t *p) { return _mm512_cvtph_ps(load32(p)); }

INLINE __m512 sixteen_bytes(const uint8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load16(p))); }

INLINE __m512 sixteen_signed(const int8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(p))); }

INLINE __m512i four_bits(const uint8_t *p, int high) {
    const __m512i v = _mm512_loadu_si512(p);
    return _mm512_and_si512(high ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
}

/* Bits 2j and 2j + 1 of 64 bytes. */
INLINE __m512i two_bits(const uint8_t *p, int j) {
    const __m512i v    = _mm512_loadu_si512(p);
    const __m512i down = j == 0   ? v
                         : j == 1 ? _mm512_srli_epi16(v, 2)
                         : j == 2 ? _mm512_srli_epi16(v, 4)
                                  : _mm512_srli_epi16(v, 6);
    return _mm512_and_si512(down, _mm512_set1_epi8(3));
}

/* `sign`: -0.0f negates the minima, which K types subtract. */
INLINE void put_scales_and_minima(const uint16_t *d, const uint16_t *min, float sign, Header *h) {
    h->d   = sixteen_halves(d);
    h->min = _mm512_xor_ps(sixteen_halves(min), _mm512_set1_ps(sign));
}

INLINE void repacked_header_q4_0(const char *block, Header *h) {
    h->d = sixteen_halves(((const RepackedQ4_0 *)(const void *)block)->d);
}
INLINE __m512i repacked_quad_q4_0(const char *block, int u, int j, int k) {
    const RepackedQ4_0 *b = (const void *)block;
    (void)u, (void)j;
    return four_bits(b->q[k % 4][0], k >= 4);
}
INLINE __m512 scale_q4_0(const char *block, const Header *h, int u) {
    (void)block, (void)u;
    return h->d;
}
#define min_q4_0 NULL

INLINE void repacked_header_q4_1(const char *block, Header *h) {
    const RepackedQ4_1 *b = (const void *)block;
    put_scales_and_minima(b->d, b->m, 0.0f, h);
}
INLINE __m512i repacked_quad_q4_1(const char *block, int u, int j, int k) {
    const RepackedQ4_1 *b = (const void *)block;
    (void)u, (void)j;
    return four_bits(b->q[k % 4][0], k >= 4);
}
#define scale_q4_1 scale_q4_0
INLINE __m512 min_q4_1(const char *block, const Header *h, int u) {
    (void)block, (void)u;
    return h->min;
}

/* Bit `bit` of each byte, as bit 4. */
INLINE __m512i bit_to_4(__m512i v, int bit) {
    const __m512i moved = bit == 0   ? _mm512_slli_epi16(v, 4)
                          : bit == 1 ? _mm512_slli_epi16(v, 3)
                          : bit == 2 ? _mm512_slli_epi16(v, 2)
                          : bit == 3 ? _mm512_slli_epi16(v, 1)
                          : bit == 4 ? v
                          : bit == 5 ? _mm512_srli_epi16(v, 1)
                          : bit == 6 ? _mm512_srli_epi16(v, 2)
                                     : _mm512_srli_epi16(v, 3);
    return _mm512_and_si512(moved, _mm512_set1_epi8(0x10));
}

/* Quad k of a block of 32 with fifth bits. */
INLINE __m512i five_bits(const uint8_t *q, const uint8_t *high, int k) {
    return _mm512_or_si512(four_bits(q, k >= 4), bit_to_4(_mm512_loadu_si512(high), k));
}

INLINE void repacked_header_q5_0(const char *block, Header *h) {
    h->d = sixteen_halves(((const RepackedQ5_0 *)(const void *)block)->d);
}
INLINE __m512i repacked_quad_q5_0(const char *block, int u, int j, int k) {
    const RepackedQ5_0 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][0], b->high[0], k);
}
#define scale_q5_0 scale_q4_0
#define min_q5_0   NULL

INLINE void repacked_header_q5_1(const char *block, Header *h) {
    const RepackedQ5_1 *b = (const void *)block;
    put_scales_and_minima(b->d, b->m, 0.0f, h);
}
INLINE __m512i repacked_quad_q5_1(const char *block, int u, int j, int k) {
    const RepackedQ5_1 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][0], b->high[0], k);
}
#define scale_q5_1 scale_q4_0
#define min_q5_1   min_q4_1

INLINE void repacked_header_q8_0(const char *block, Header *h) {
    h->d = sixteen_halves(((const RepackedQ8_0 *)(const void *)block)->d);
}
INLINE __m512i repacked_quad_q8_0(const char *block, int u, int j, int k) {
    const RepackedQ8_0 *b = (const void *)block;
    (void)u, (void)j;
    return _mm512_xor_si512(_mm512_loadu_si512(b->q[k][0]), _mm512_set1_epi8((char)0x80));
}
#define scale_q8_0 scale_q4_0
#define min_q8_0   NULL

INLINE void repacked_header_q4_k(const char *block, Header *h) {
    const RepackedQ4_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m512i repacked_quad_q4_k(const char *block, int u, int j, int k) {
    const RepackedQ4_K *b = (const void *)block;
    return four_bits(b->q[u / 2][k][0], j % 2);
}
INLINE __m512 scale_q4_k(const char *block, const Header *h, int u) {
    return _mm512_mul_ps(h->d, sixteen_bytes(((const RepackedQ4_K *)(const void *)block)->scale[u]));
}
INLINE __m512 min_q4_k(const char *block, const Header *h, int u) {
    return _mm512_mul_ps(h->min, sixteen_bytes(((const RepackedQ4_K *)(const void *)block)->min[u]));
}

INLINE void repacked_header_q5_k(const char *block, Header *h) {
    const RepackedQ5_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m512i repacked_quad_q5_k(const char *block, int u, int j, int k) {
    const RepackedQ5_K *b    = (const void *)block;
    const __m512i       high = bit_to_4(_mm512_loadu_si512(b->high[u / 4][k / 2][0]), j + 4 * (k % 2));
    return _mm512_or_si512(four_bits(b->low[u / 2][k][0], j % 2), high);
}
INLINE __m512 scale_q5_k(const char *block, const Header *h, int u) {
    return _mm512_mul_ps(h->d, sixteen_bytes(((const RepackedQ5_K *)(const void *)block)->scale[u]));
}
INLINE __m512 min_q5_k(const char *block, const Header *h, int u) {
    return _mm512_mul_ps(h->min, sixteen_bytes(((const RepackedQ5_K *)(const void *)block)->min[u]));
}

INLINE void repacked_header_q6_k(const char *block, Header *h) {
    h->d = sixteen_halves(((const RepackedQ6_K *)(const void *)block)->d);
}
INLINE __m512i repacked_quad_q6_k(const char *block, int u, int j, int k) {
    const RepackedQ6_K *b    = (const void *)block;
    const __m512i       high = _mm512_loadu_si512(b->high[u / 4][k][0]);
    const __m512i       up   = j == 0   ? _mm512_slli_epi16(high, 4)
                               : j == 1 ? _mm512_slli_epi16(high, 2)
                               : j == 2 ? high
                                        : _mm512_srli_epi16(high, 2);
    return _mm512_or_si512(four_bits(b->low[u / 2][k][0], j % 2), _mm512_and_si512(up, _mm512_set1_epi8(0x30)));
}
INLINE __m512 scale_q6_k(const char *block, const Header *h, int u) {
    return _mm512_mul_ps(h->d, sixteen_signed(((const RepackedQ6_K *)(const void *)block)->scale[u]));
}
#define min_q6_k NULL

INLINE void repacked_header_q2_k(const char *block, Header *h) {
    const RepackedQ2_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m512i repacked_quad_q2_k(const char *block, int u, int j, int k) {
    return two_bits(((const RepackedQ2_K *)(const void *)block)->q[u / 4][k][0], j);
}
INLINE __m512 scale_q2_k(const char *block, const Header *h, int u) {
    const __m512i v = _mm512_cvtepu8_epi32(load16(((const RepackedQ2_K *)(const void *)block)->scale[u]));
    return _mm512_mul_ps(h->d, _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32(15))));
}
INLINE __m512 min_q2_k(const char *block, const Header *h, int u) {
    const __m512i v = _mm512_cvtepu8_epi32(load16(((const RepackedQ2_K *)(const void *)block)->scale[u]));
    return _mm512_mul_ps(h->min, _mm512_cvtepi32_ps(_mm512_srli_epi32(v, 4)));
}

/* The values of 64 nibbles. */
INLINE __m512i unsigned_quad(const uint8_t *p, int high, __m128i values) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), four_bits(p, high));
}

/* The same, plus 128. */
INLINE __m512i value_quad(const uint8_t *p, int high, const int8_t *values) {
    return unsigned_quad(p, high, _mm_xor_si128(load16(values), _mm_set1_epi8((char)0x80)));
}

INLINE void repacked_header_mxfp4(const char *block, Header *h) {
    const RepackedMXFP4 *b = (const void *)block;
    h->d                   = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(b->d)), 16));
}
INLINE __m512i repacked_quad_mxfp4(const char *block, int u, int j, int k) {
    const RepackedMXFP4 *b = (const void *)block;
    (void)u, (void)j;
    return unsigned_quad(b->q[k % 4][0], k >= 4, load16(rp_mxfp4_values));
}
#define scale_mxfp4 scale_q4_0
#define min_mxfp4   NULL

INLINE void    repacked_header_iq4_nl(const char *block, Header *h) { repacked_header_q4_0(block, h); }
INLINE __m512i repacked_quad_iq4_nl(const char *block, int u, int j, int k) {
    const RepackedIQ4_NL *b = (const void *)block;
    (void)u, (void)j;
    return value_quad(b->q[k % 4][0], k >= 4, rp_iq4_values);
}
#define scale_iq4_nl scale_q4_0
#define min_iq4_nl   NULL

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        const Repacked##ID *b = (const void *)block;                                                                   \
        h->d                  = _mm512_mul_ps(sixteen_halves(b->d), _mm512_set1_ps(unit_##name));                      \
    }                                                                                                                  \
    INLINE __m512i repacked_quad_##name(const char *block, int u, int j, int k) {                                      \
        return value_quad(((const Repacked##ID *)(const void *)block)->q[u / 2][k][0], j % 2, values_##name);          \
    }                                                                                                                  \
    INLINE __m512 scale_##name(const char *block, const Header *h, int u) {                                            \
        return _mm512_mul_ps(h->d, sixteen_signed(((const Repacked##ID *)(const void *)block)->scale[u]));             \
    }                                                                                                                  \
    static ScaleOf *const min_##name = NULL;
RP_REPACKED_VALUES(X)
#undef X

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        h->d = sixteen_halves(((const Repacked##ID *)(const void *)block)->d);                                         \
    }                                                                                                                  \
    INLINE __m512i repacked_quad_##name(const char *block, int u, int j, int k) {                                      \
        const __m512i q = two_bits(((const Repacked##ID *)(const void *)block)->q[u / 4][k][0], j);                    \
        return _mm512_add_epi8(q, _mm512_set1_epi8(127));                                                              \
    }                                                                                                                  \
    INLINE __m512         scale_##name(const char *block, const Header *h, int u) { return scale_q4_0(block, h, u); }  \
    static ScaleOf *const min_##name = NULL;
RP_REPACKED_TERNARY(X)
#undef X
#endif
#endif
