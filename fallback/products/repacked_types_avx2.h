/* repacked_types_avx2.h - loads of repacked weights (repack.h) for AVX2: for each type the header of a block, the quads
 * of a sub-block, and its scales and minima. */
#ifndef FALLBACK_PRODUCTS_REPACKED_TYPES_AVX2_H
#define FALLBACK_PRODUCTS_REPACKED_TYPES_AVX2_H

#include "fallback/products/blocks_x86.h"
#include "fallback/products/repack.h"

#ifdef RP_X86
#define INLINE INLINE_AVX2

enum { COLS = 4, SIDES = 2, LANES = 8, SIGNED = 128, FULL = 32767 };

/* Scales and minima of a block of 16 rows, which the sub-blocks of a k-step share. */
typedef struct Header {
    __m256 d[SIDES], min[SIDES];
} Header;

typedef void    HeaderOf(const char *block, Header *out);
typedef __m256i QuadOf(const char *block, int u, int j, int k, int side); /* j = u % 4, a constant once unrolled */
typedef __m256  ScaleOf(const char *block, const Header *h, int u, int side);

typedef struct RepackedType {
    HeaderOf *header; /* of a block; of types in blocks of 32 it is called for each sub-block */
    QuadOf   *quad;
    ScaleOf  *scale, *min;
    size_t    bytes; /* of a block of 16 rows */
    int       subs;  /* of a block */
    int       run;   /* quads whose products are added in 16 bits */
    int       raise; /* what quads of a type with offset 128 have been raised by; 0: they are signed */
    QuantForm form;
} RepackedType;

INLINE __m256 eight_halves(const uint16_t *p) { return _mm256_cvtph_ps(load16(p)); }

INLINE __m256 eight_bytes(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256 eight_signed(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256i nibbles(const uint8_t *p, int high) {
    const __m256i v = load32(p);
    return _mm256_and_si256(high ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Bits 2j and 2j + 1 of 32 bytes. */
INLINE __m256i two_bits(const uint8_t *p, int j) {
    return _mm256_and_si256(_mm256_srli_epi16(load32(p), 2 * j), _mm256_set1_epi8(3));
}

INLINE void put_scales(const uint16_t *d, Header *h) {
    for (int s = 0; s < SIDES; s++) h->d[s] = eight_halves(d + LANES * s);
}

/* `sign`: -0.0f negates the minima, which K types subtract. */
INLINE void put_scales_and_minima(const uint16_t *d, const uint16_t *min, float sign, Header *h) {
    put_scales(d, h);
    for (int s = 0; s < SIDES; s++) h->min[s] = _mm256_xor_ps(eight_halves(min + LANES * s), _mm256_set1_ps(sign));
}

INLINE void repacked_header_q4_0(const char *block, Header *h) {
    put_scales(((const RepackedQ4_0 *)(const void *)block)->d, h);
}
INLINE __m256i repacked_quad_q4_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_0 *b = (const void *)block;
    (void)u, (void)j;
    return nibbles(b->q[k % 4][LANES * side], k >= 4);
}
INLINE __m256 scale_q4_0(const char *block, const Header *h, int u, int side) {
    (void)block, (void)u;
    return h->d[side];
}
#define min_q4_0 NULL

INLINE void repacked_header_q4_1(const char *block, Header *h) {
    const RepackedQ4_1 *b = (const void *)block;
    put_scales_and_minima(b->d, b->m, 0.0f, h);
}
INLINE __m256i repacked_quad_q4_1(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_1 *b = (const void *)block;
    (void)u, (void)j;
    return nibbles(b->q[k % 4][LANES * side], k >= 4);
}
#define scale_q4_1 scale_q4_0
INLINE __m256 min_q4_1(const char *block, const Header *h, int u, int side) {
    (void)block, (void)u;
    return h->min[side];
}

/* Bit `bit` of each byte, as bit 4. */
INLINE __m256i bit_to_4(__m256i v, int bit) {
    const __m256i moved = bit < 4 ? _mm256_slli_epi16(v, 4 - bit) : _mm256_srli_epi16(v, bit - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(0x10));
}

/* Quad k of a block of 32 with fifth bits. */
INLINE __m256i five_bits(const uint8_t *q, const uint8_t *high, int k) {
    return _mm256_or_si256(nibbles(q, k >= 4), bit_to_4(load32(high), k));
}

INLINE void repacked_header_q5_0(const char *block, Header *h) {
    put_scales(((const RepackedQ5_0 *)(const void *)block)->d, h);
}
INLINE __m256i repacked_quad_q5_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_0 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][LANES * side], b->high[LANES * side], k);
}
#define scale_q5_0 scale_q4_0
#define min_q5_0   NULL

INLINE void repacked_header_q5_1(const char *block, Header *h) {
    const RepackedQ5_1 *b = (const void *)block;
    put_scales_and_minima(b->d, b->m, 0.0f, h);
}
INLINE __m256i repacked_quad_q5_1(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_1 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][LANES * side], b->high[LANES * side], k);
}
#define scale_q5_1 scale_q4_0
#define min_q5_1   min_q4_1

INLINE void repacked_header_q8_0(const char *block, Header *h) {
    put_scales(((const RepackedQ8_0 *)(const void *)block)->d, h);
}
INLINE __m256i repacked_quad_q8_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ8_0 *b = (const void *)block;
    (void)u, (void)j;
    return load32(b->q[k][LANES * side]);
}
#define scale_q8_0 scale_q4_0
#define min_q8_0   NULL

INLINE void repacked_header_q4_k(const char *block, Header *h) {
    const RepackedQ4_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m256i repacked_quad_q4_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return nibbles(b->q[u / 2][k][LANES * side], j % 2);
}
INLINE __m256 scale_q4_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_bytes(b->scale[u] + LANES * side));
}
INLINE __m256 min_q4_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return _mm256_mul_ps(h->min[side], eight_bytes(b->min[u] + LANES * side));
}

INLINE void repacked_header_q5_k(const char *block, Header *h) {
    const RepackedQ5_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m256i repacked_quad_q5_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_K *b    = (const void *)block;
    const __m256i       high = bit_to_4(load32(b->high[u / 4][k / 2][LANES * side]), j + 4 * (k % 2));
    return _mm256_or_si256(nibbles(b->low[u / 2][k][LANES * side], j % 2), high);
}
INLINE __m256 scale_q5_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ5_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_bytes(b->scale[u] + LANES * side));
}
INLINE __m256 min_q5_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ5_K *b = (const void *)block;
    return _mm256_mul_ps(h->min[side], eight_bytes(b->min[u] + LANES * side));
}

INLINE void repacked_header_q6_k(const char *block, Header *h) {
    put_scales(((const RepackedQ6_K *)(const void *)block)->d, h);
}
INLINE __m256i repacked_quad_q6_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ6_K *b    = (const void *)block;
    const __m256i       high = load32(b->high[u / 4][k][LANES * side]);
    const __m256i       up   = j < 2 ? _mm256_slli_epi16(high, 4 - 2 * j) : _mm256_srli_epi16(high, 2 * j - 4);
    return _mm256_or_si256(nibbles(b->low[u / 2][k][LANES * side], j % 2),
                           _mm256_and_si256(up, _mm256_set1_epi8(0x30)));
}
INLINE __m256 scale_q6_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ6_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_signed(b->scale[u] + LANES * side));
}
#define min_q6_k NULL

INLINE void repacked_header_q2_k(const char *block, Header *h) {
    const RepackedQ2_K *b = (const void *)block;
    put_scales_and_minima(b->d, b->dmin, -0.0f, h);
}
INLINE __m256i repacked_quad_q2_k(const char *block, int u, int j, int k, int side) {
    return two_bits(((const RepackedQ2_K *)(const void *)block)->q[u / 4][k][LANES * side], j);
}
INLINE __m256i eight_of_q2_k(const char *block, int u, int side) {
    const RepackedQ2_K *b = (const void *)block;
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->scale[u] + LANES * side)));
}
INLINE __m256 scale_q2_k(const char *block, const Header *h, int u, int side) {
    const __m256i low = _mm256_and_si256(eight_of_q2_k(block, u, side), _mm256_set1_epi32(15));
    return _mm256_mul_ps(h->d[side], _mm256_cvtepi32_ps(low));
}
INLINE __m256 min_q2_k(const char *block, const Header *h, int u, int side) {
    const __m256i high = _mm256_srli_epi32(eight_of_q2_k(block, u, side), 4);
    return _mm256_mul_ps(h->min[side], _mm256_cvtepi32_ps(high));
}

/* The values of 32 nibbles, plus `raise`. */
INLINE __m256i value_quad(const uint8_t *p, int high, const int8_t *values, int raise) {
    const __m256i table = _mm256_broadcastsi128_si256(load16(values));
    return _mm256_shuffle_epi8(_mm256_add_epi8(table, _mm256_set1_epi8((char)raise)), nibbles(p, high));
}

INLINE void repacked_header_mxfp4(const char *block, Header *h) {
    const RepackedMXFP4 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++)
        h->d[s] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(b->d + LANES * s)), 16));
}
INLINE __m256i repacked_quad_mxfp4(const char *block, int u, int j, int k, int side) {
    const RepackedMXFP4 *b = (const void *)block;
    (void)u, (void)j;
    return value_quad(b->q[k % 4][LANES * side], k >= 4, (const int8_t *)rp_mxfp4_values, 0);
}
#define scale_mxfp4 scale_q4_0
#define min_mxfp4   NULL

INLINE void    repacked_header_iq4_nl(const char *block, Header *h) { repacked_header_q4_0(block, h); }
INLINE __m256i repacked_quad_iq4_nl(const char *block, int u, int j, int k, int side) {
    const RepackedIQ4_NL *b = (const void *)block;
    (void)u, (void)j;
    return value_quad(b->q[k % 4][LANES * side], k >= 4, rp_iq4_values, 0);
}
#define scale_iq4_nl scale_q4_0
#define min_iq4_nl   NULL

/* A power of two, so that the correction of a column, which is -128 times its sum, is divided by a shift. Raised quads
 * are not negative; quads of more than 7 bits stay signed, since two products of them do not fit in 16 bits. */
#define RAISE_OF(top) ((top) <= 130 ? 1 : (top) <= 131 ? 4 : (top) <= 143 ? 16 : (top) <= 190 ? 64 : 0)
#define RAISE(ID)     ((int)RP_##ID##_OFFSET != SIGNED ? 0 : RAISE_OF(RP_##ID##_TOP))

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        const Repacked##ID *b = (const void *)block;                                                                   \
        for (int s = 0; s < SIDES; s++)                                                                                \
            h->d[s] = _mm256_mul_ps(eight_halves(b->d + LANES * s), _mm256_set1_ps(unit_##name));                      \
    }                                                                                                                  \
    INLINE __m256i repacked_quad_##name(const char *block, int u, int j, int k, int side) {                            \
        const Repacked##ID *b = (const void *)block;                                                                   \
        return value_quad(b->q[u / 2][k][LANES * side], j % 2, values_##name, RAISE(ID));                              \
    }                                                                                                                  \
    INLINE __m256 scale_##name(const char *block, const Header *h, int u, int side) {                                  \
        const Repacked##ID *b = (const void *)block;                                                                   \
        return _mm256_mul_ps(h->d[side], eight_signed(b->scale[u] + LANES * side));                                    \
    }                                                                                                                  \
    static ScaleOf *const min_##name = NULL;
RP_REPACKED_VALUES(X)
#undef X

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        put_scales(((const Repacked##ID *)(const void *)block)->d, h);                                                 \
    }                                                                                                                  \
    INLINE __m256i repacked_quad_##name(const char *block, int u, int j, int k, int side) {                            \
        return two_bits(((const Repacked##ID *)(const void *)block)->q[u / 4][k][LANES * side], j);                    \
    }                                                                                                                  \
    INLINE __m256 scale_##name(const char *block, const Header *h, int u, int side) {                                  \
        return scale_q4_0(block, h, u, side);                                                                          \
    }                                                                                                                  \
    static ScaleOf *const min_##name = NULL;
RP_REPACKED_TERNARY(X)
#undef X

/* Quads that can be added in 16 bits, two products a lane and quad: of 4 bits all 8, 15 * 127 * 16 = 30480; of Q6_K
 * two, 63 * 127 * 4 = 32004; of signed Q8_0 one, 128 * 127 * 2 = 32512. */
#define LARGEST(ID)                                                                                                    \
    ((int)RP_##ID##_OFFSET != SIGNED ? RP_##ID##_TOP : RAISE(ID) > 0 ? RP_##ID##_TOP - 128 + RAISE(ID) : 128)
#define RUN(ID)                                                                                                        \
    (LARGEST(ID) * 127 * 2 * (RP_##ID##_SUB / RP_QUAD) <= FULL ? RP_##ID##_SUB / RP_QUAD                               \
     : LARGEST(ID) * 127 * 2 * 2 <= FULL                       ? 2                                                     \
                                                               : 1)
#define X(ID, name) static_assert(LARGEST(ID) * 127 * 2 * RUN(ID) <= FULL, #name ": a run fits in 16 bits");
RP_REPACKED(X)
#undef X
#endif
#endif
