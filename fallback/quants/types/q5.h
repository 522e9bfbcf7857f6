/* q5.h - Q5_0 and Q5_1: as Q4_0 and Q4_1 (q4.h), with a fifth bit of each element. */
#ifndef FALLBACK_QUANTS_TYPES_Q5_H
#define FALLBACK_QUANTS_TYPES_Q5_H

#include "fallback/quants/expand.h"
#include "fallback/quants/fit.h"

/* x[i] = d * (q[i] - 16) */
typedef struct BlockQ5_0 {
    uint16_t d;
    uint8_t  qh[4]; /* bit i of the little-endian word: fifth bit of element i */
    uint8_t  qs[16];
} BlockQ5_0;

/* x[i] = d * q[i] + m */
typedef struct BlockQ5_1 {
    uint16_t d, m;
    uint8_t  qh[4];
    uint8_t  qs[16];
} BlockQ5_1;

/* Bit i of the word at qh becomes bit 4 of q[i]. */
RP_BODY void rp_fifth_bits(const uint8_t *qh, uint8_t *q) {
    uint32_t bits;
    memcpy(&bits, qh, sizeof bits);
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] | (bits >> i & 1) << 4);
}

RP_BODY void q5_0_block(const BlockQ5_0 *b, uint8_t *q, float *scale, float *min) {
    const float d = rp_f16_to_f32(b->d);
    rp_nibbles(b->qs, 16, q);
    rp_fifth_bits(b->qh, q);
    rp_both_sum_blocks(scale, min, d, 0.0f);
}

RP_BODY void q5_1_block(const BlockQ5_1 *b, uint8_t *q, float *scale, float *min) {
    rp_nibbles(b->qs, 16, q);
    rp_fifth_bits(b->qh, q);
    rp_both_sum_blocks(scale, min, rp_f16_to_f32(b->d), rp_f16_to_f32(b->m));
}

static inline void rp_put_fifth_bits(const uint8_t *q, uint8_t *qh) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)(q[i] >> 4) << i;
    memcpy(qh, &bits, sizeof bits);
}

static inline void quantize_q5_0(const float *x, const float *w, void *out) {
    BlockQ5_0 *b = out;
    uint8_t    q[32];
    b->d = rp_round_symmetric(x, w, 16, q);
    rp_put_nibbles(q, 16, b->qs);
    rp_put_fifth_bits(q, b->qh);
}

static inline void quantize_q5_1(const float *x, const float *w, void *out) {
    BlockQ5_1 *b = out;
    uint8_t    q[32];
    rp_round_affine(x, w, 31, q, &b->d, &b->m);
    rp_put_nibbles(q, 16, b->qs);
    rp_put_fifth_bits(q, b->qh);
}

#endif

#ifdef RP_LOADS_GEMV_AVX2 /* gemv_load_avx2.h */
/* 16 in each byte whose fifth bit is set. Bytes a and a + 1 of the lower half of v have the 16 bits of the elements of
 * the lower half. Bytes b and b + 1 of its upper half have the bits of the elements of the upper half. The shuffle
 * copies the right byte to each element, and `bit` tests bit i % 8 of it. */
INLINE __m256i fifth_bits(__m256i v, int a, int b) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i at  = _mm256_setr_epi64x(a * 0x0101010101010101, (a + 1) * 0x0101010101010101, b * 0x0101010101010101,
                                           (b + 1) * 0x0101010101010101);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(v, at), bit), bit);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/* Adds the fifth bits of pair h. 32 bytes from the first block's qh on also contain the next block's qh: it is
 * `block` bytes later, that is byte block - 16 of the upper half. */
INLINE void add_fifth_bits(const char *p, size_t block, size_t skip, int h, __m256i q[2]) {
    const __m256i v    = load32(p + skip + (size_t)(2 * h) * block);
    const int     next = (int)block - 16;
    q[0]               = _mm256_or_si256(q[0], fifth_bits(v, 0, next));
    q[1]               = _mm256_or_si256(q[1], fifth_bits(v, 2, next + 2));
}

INLINE void load_q5_0(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ5_0), 6, h, q);
    add_fifth_bits(p, sizeof(BlockQ5_0), 2, h, q);
}

INLINE void header_q5_0(const char *const *p, Header *out) { no_header(p, out); }

INLINE void scales_q5_0(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    only_scales(p, sizeof(BlockQ5_0), h, out);
}

INLINE void load_q5_1(const char *p, int j, int h, __m256i q[2]) {
    (void)j;
    nibbles_of_blocks(p, sizeof(BlockQ5_1), 8, h, q);
    add_fifth_bits(p, sizeof(BlockQ5_1), 4, h, q);
}

INLINE void header_q5_1(const char *const *p, Header *out) { no_header(p, out); }

INLINE void scales_q5_1(const char *const *p, const Header *header, int j, int h, PairScales *out) {
    (void)header, (void)j;
    scales_with_minima(p, sizeof(BlockQ5_1), h, out);
}
#endif

#ifdef RP_LOADS_PANEL_AVX2 /* blocks_avx2.h */
/* nibble_quad with the fifth bits of elements 4k..4k+3: four bits of byte k / 2 of each lane. The shuffle copies that
 * byte to the whole lane, and `bit` tests one of its bits in each byte. */
INLINE __m256i five_bit_quad(const Load *l, int k) {
    const int     byte = k / 2 * 0x01010101;
    const __m128i at   = _mm_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c);
    const __m256i bit  = _mm256_set1_epi32((int)(0x08040201u << k % 2 * 4));
    const __m256i copy = _mm256_shuffle_epi8(l->fifth[0], _mm256_broadcastsi128_si256(at));
    const __m256i set  = _mm256_cmpeq_epi8(_mm256_and_si256(copy, bit), bit);
    return bits_and_all(set, _mm256_set1_epi8(16), nibble_quad(l, k));
}

#define FIVE_BITS(name, Block, scales, skip)                                                                           \
    INLINE void begin_##name(const SideRows *rows, Load *l) { nothing_shared(rows, l); }                               \
    INLINE void step_##name(const SideRows *rows, int step, Load *l) {                                                 \
        scales(rows, sizeof(Block), step, l);                                                                          \
        l->fifth[0] = word_of_rows(rows, (size_t)step * sizeof(Block) + (skip));                                       \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip) + 4, l->raw);                                        \
    }                                                                                                                  \
    INLINE __m256i quad_##name(const Load *l, int step, int v, int k) {                                                \
        return (void)step, (void)v, five_bit_quad(l, k);                                                               \
    }
FIVE_BITS(q5_0, BlockQ5_0, only_scale, 2)
FIVE_BITS(q5_1, BlockQ5_1, scale_and_minimum, 4)
#undef FIVE_BITS
#endif

#ifdef RP_LOADS_GEMV_AVX512 /* gemv_load_avx512.h */
INLINE void scales_q5_0(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    half_scales(row, at, sizeof(BlockQ5_0), 1, n_subs, out);
}

INLINE void scales_q5_1(const char *const *row, size_t at, int n_subs, KstepScales *out) {
    half_scales(row, at, sizeof(BlockQ5_1), 2, n_subs, out);
}

/* Adds the fifth bits. words has qh of each block: bits 0-15 belong to `a`, bits 16-31 to `b`. Split by a byte
 * shuffle, they are byte masks for all 64 elements of each. */
INLINE void add_fifth_bits(__m128i words, Kstep *s) {
    const __m128i split = _mm_shuffle_epi8(words, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __mmask64 a = (__mmask64)_mm_cvtsi128_si64(split), b = (__mmask64)_mm_extract_epi64(split, 1);
    s->a = _mm512_mask_add_epi8(s->a, a, s->a, _mm512_set1_epi8(16));
    s->b = _mm512_mask_add_epi8(s->b, b, s->b, _mm512_set1_epi8(16));
}

INLINE void load_q5_0(const char *p, int n_subs, Kstep *s) {
    const __m512i v = bytes_of_blocks(p + 6, sizeof(BlockQ5_0), n_subs);
    *s              = (Kstep){.a = low_nibbles(v), .b = high_nibbles(v)};
    add_fifth_bits(words_of_blocks(p + 2, sizeof(BlockQ5_0), n_subs), s);
}

INLINE void load_q5_1(const char *p, int n_subs, Kstep *s) {
    const __m512i v = bytes_of_blocks(p + 8, sizeof(BlockQ5_1), n_subs);
    *s              = (Kstep){.a = low_nibbles(v), .b = high_nibbles(v)};
    add_fifth_bits(words_of_blocks(p + 4, sizeof(BlockQ5_1), n_subs), s);
}
#endif

#ifdef RP_LOADS_PANEL_AVX512 /* blocks_avx512.h */
/* nibble_quad with the fifth bits of elements 4k..4k+3. Those are four bits of a lane, and spread[] is a table of
 * their 16 values, with each bit at bit 4 of its byte. The permutation uses the low 4 bits of each lane as the
 * index. */
INLINE __m512i five_bit_quad(const Load *l, int k) {
#define BITS(n) ((n)&1) << 4 | ((n) >> 1 & 1) << 12 | ((n) >> 2 & 1) << 20 | ((n) >> 3) << 28
    const __m512i spread =
        _mm512_setr_epi32(BITS(0), BITS(1), BITS(2), BITS(3), BITS(4), BITS(5), BITS(6), BITS(7), BITS(8), BITS(9),
                          BITS(10), BITS(11), BITS(12), BITS(13), BITS(14), BITS(15));
#undef BITS
    const __m512i four = k == 0 ? l->fifth[0] : _mm512_srli_epi32(l->fifth[0], 4 * (unsigned)k);
    return _mm512_or_si512(nibble_quad(l, k), _mm512_permutexvar_epi32(four, spread));
}

#define FIVE_BITS(name, Block, scales, skip)                                                                           \
    INLINE void begin_##name(const PanelRows *rows, int n_subs, Load *l) { scales(rows, sizeof(Block), n_subs, l); }   \
    INLINE void step_##name(const PanelRows *rows, int step, Load *l) {                                                \
        l->fifth[0] = word_of_rows(rows, (size_t)step * sizeof(Block) + (skip));                                       \
        words_of_rows(rows, (size_t)step * sizeof(Block) + (skip) + 4, l->raw);                                        \
    }                                                                                                                  \
    INLINE __m512i quad_##name(const Load *l, int step, int v, int k) {                                                \
        return (void)step, (void)v, five_bit_quad(l, k);                                                               \
    }
FIVE_BITS(q5_0, BlockQ5_0, half_scales, 2)
FIVE_BITS(q5_1, BlockQ5_1, scales_and_minima, 4)
#undef FIVE_BITS
#endif

#ifdef RP_LOADS_NEON /* gemv_load_neon.h */
/* Adds the fifth bits of a block, whose word qh is at p. The table lookup copies to each element the byte that has
 * its bit, and vtst tests bit i % 8 of it. */
INLINE void add_fifth_bits(const char *p, int8x16_t *v) {
    static const uint8_t bytes[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                      2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    const uint8x16_t     word      = load16(p); /* qh and 12 bytes of qs */
    const uint8x16_t     bit       = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    v[0]                           = with_bits(v[0], 16, vtstq_u8(vqtbl1q_u8(word, load16(bytes)), bit));
    v[1]                           = with_bits(v[1], 16, vtstq_u8(vqtbl1q_u8(word, load16(bytes + 16)), bit));
}

enum { LEFT_q5_0 = RP_Q5_0_OFFSET, STRIDED_q5_0 = 0 };
INLINE void scales_q5_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ5_0), n_subs);
}
INLINE void quarter_q5_0(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ5_0);
    nibbles(load16(p + 6), &v[0], &v[1]);
    add_fifth_bits(p + 2, v);
}

enum { LEFT_q5_1 = 0, STRIDED_q5_1 = 0 };
INLINE void scales_q5_1(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ5_1), n_subs, scale, min);
}
INLINE void quarter_q5_1(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ5_1);
    nibbles(load16(p + 8), &v[0], &v[1]);
    add_fifth_bits(p + 4, v);
}
#endif
