/* Rows of block-quantised weights times one q8_act column, without the detour of an unpacked row: the sums
 * are those of dot.h, bit for bit. */
#include "fallback/dot.h"

#include "fallback/simd.h"

#ifdef RP_X86
#include <immintrin.h>
#include <string.h>

#define INLINE RP_TARGET_AVX512 static inline __attribute__((always_inline))

typedef struct Lanes {
    __m512 acc;
    __m128 low;
} Lanes;

/* Where the column stands: at the start of a span. */
typedef struct At {
    const int8_t *q;
    const float  *scale, *sum;
} At;

INLINE At column_at(const DotColumn *x, int64_t i) {
    return (At){.q = x->q + i, .scale = x->scale + i / 32, .sum = x->sum + i / RP_GROUP};
}

INLINE __m128i load16(const void *p) { return _mm_loadu_si128(p); }
INLINE __m256i load32(const void *p) { return _mm256_loadu_si256(p); }
INLINE __m128  load2f(const float *p) { return _mm_castsi128_ps(_mm_loadl_epi64((const void *)p)); }

INLINE __m512 by_block(__m128 pair) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(pair));
}

INLINE __m512 by_group(__m128 four) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(four));
}

/* The lower 32 bytes as they are, the upper 32 shifted right by n bits, within 16-bit units. */
INLINE __m512i shift_upper(__m512i v, int lower, int upper) {
    const __m256i a = _mm256_set1_epi16((short)lower), b = _mm256_set1_epi16((short)upper);
    return _mm512_srlv_epi16(v, _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
}

INLINE void step(Lanes *s, __m512i w, __m512 d, __m128 min, At x) {
    const __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, _mm512_loadu_si512(x.q));
    s->acc            = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot), s->acc);
    s->low            = _mm_fmadd_ps(min, _mm_loadu_ps(x.sum), s->low);
}

/* The last 32 elements of a row of an odd number of blocks. */
INLINE void step_half(Lanes *s, __m512i w, __m512 d, __m128 min, At x) {
    const __m512i q   = _mm512_maskz_loadu_epi8(0xffffffffu, x.q);
    const __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, q);
    s->acc            = _mm512_mask3_fmadd_ps(d, _mm512_cvtepi32_ps(dot), s->acc, 0xff);
    s->low            = _mm_mask3_fmadd_ps(min, _mm_maskz_loadu_ps(3, x.sum), s->low, 3);
}

/* ---- types in blocks of 32: a span is two of them ---- */

/* 16 bytes of nibbles each: low nibbles, then high, of the one block and then of the other. */
INLINE __m512i nibbles(const uint8_t *a, const uint8_t *b) {
    const __m512i both  = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load16(a)), 0xff00, load16(b));
    const __m512i shift = _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0,
                                            0x0004000400040004, 0x0004000400040004);
    return _mm512_and_si512(_mm512_srlv_epi16(both, shift), _mm512_set1_epi8(15));
}

/* Bit i of the two words becomes bit 4 of byte i. */
INLINE __m512i fifth_bits(const uint8_t *a, const uint8_t *b) {
    uint32_t low, high;
    memcpy(&low, a, sizeof low);
    memcpy(&high, b, sizeof high);
    return _mm512_maskz_set1_epi8((uint64_t)high << 32 | low, 16);
}

INLINE __m128 halves(uint16_t a, uint16_t b) {
    return _mm_cvtph_ps(_mm_cvtsi32_si128((int)(a | (uint32_t)b << 16)));
}

INLINE __m128 twice(__m128 pair) { return _mm_unpacklo_ps(pair, pair); }

/* Types with a fixed offset: min = -offset * d. */
#define OFFSET_MIN(offset) twice(_mm_mul_ps(_mm_set1_ps(-(float)(offset)), d))
#define OWN_MIN(unused)    twice(halves(a->m, b->m))

INLINE __m512i quants_q4_0(const BlockQ4_0 *a, const BlockQ4_0 *b) { return nibbles(a->qs, b->qs); }
INLINE __m512i quants_q4_1(const BlockQ4_1 *a, const BlockQ4_1 *b) { return nibbles(a->qs, b->qs); }
INLINE __m512i quants_q5_0(const BlockQ5_0 *a, const BlockQ5_0 *b) {
    return _mm512_or_si512(nibbles(a->qs, b->qs), fifth_bits(a->qh, b->qh));
}
INLINE __m512i quants_q5_1(const BlockQ5_1 *a, const BlockQ5_1 *b) {
    return _mm512_or_si512(nibbles(a->qs, b->qs), fifth_bits(a->qh, b->qh));
}
INLINE __m512i quants_q8_0(const BlockQ8_0 *a, const BlockQ8_0 *b) {
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(load32(a->qs)), load32(b->qs), 1);
    return _mm512_xor_si512(both, _mm512_set1_epi8((char)0x80));
}

#define ROW_OF_32(name, Block, MIN, offset)                                                                  \
    INLINE void row_##name(const char *row, int64_t n, const DotColumn *x, Lanes *s) {                       \
        const Block *a = (const Block *)(const void *)row;                                                   \
        int64_t      i = 0;                                                                                  \
        for (; i + RP_SPAN <= n; i += RP_SPAN, a += 2) {                                                     \
            const Block *b  = a + 1;                                                                         \
            const At     at = column_at(x, i);                                                               \
            const __m128 d  = halves(a->d, b->d);                                                            \
            step(s, quants_##name(a, b), by_block(_mm_mul_ps(d, load2f(at.scale))), MIN(offset), at);        \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            const Block *b  = a;                                                                             \
            const At     at = column_at(x, i);                                                               \
            const __m128 d  = halves(a->d, 0);                                                               \
            step_half(s, quants_##name(a, b), by_block(_mm_mul_ps(d, _mm_load_ss(at.scale))), MIN(offset),   \
                      at);                                                                                   \
        }                                                                                                    \
    }

ROW_OF_32(q4_0, BlockQ4_0, OFFSET_MIN, 8)
ROW_OF_32(q4_1, BlockQ4_1, OWN_MIN, 0)
ROW_OF_32(q5_0, BlockQ5_0, OFFSET_MIN, 16)
ROW_OF_32(q5_1, BlockQ5_1, OWN_MIN, 0)
ROW_OF_32(q8_0, BlockQ8_0, OFFSET_MIN, 128)

/* ---- types in blocks of 256: four spans ---- */

typedef struct ScalesK {
    float scale[8], min[8];
} ScalesK;

/* unpack.c says where the 6-bit fields stand; here four at a time. */
INLINE void scales_k(const uint8_t *packed, uint16_t d, uint16_t dmin, ScalesK *out) {
    uint32_t s[3];
    memcpy(s, packed, sizeof s);
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
    const uint64_t scales = (s[0] & six) | (uint64_t)((s[2] & four) | (s[0] >> 6 & two) << 4) << 32;
    const uint64_t mins   = (s[1] & six) | (uint64_t)((s[2] >> 4 & four) | (s[1] >> 6 & two) << 4) << 32;
    const __m128   both   = halves(d, dmin);
    const __m256   scale  = _mm256_broadcastss_ps(both);
    const __m256   min    = _mm256_sub_ps(_mm256_setzero_ps(), _mm256_broadcastss_ps(_mm_movehdup_ps(both)));
    const __m256i  si     = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)scales));
    const __m256i  mi     = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)mins));
    _mm256_storeu_ps(out->scale, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(si)));
    _mm256_storeu_ps(out->min, _mm256_mul_ps(min, _mm256_cvtepi32_ps(mi)));
}

INLINE void step_k(Lanes *s, __m512i w, const ScalesK *k, int j, At x) {
    step(s, w, by_block(_mm_mul_ps(load2f(k->scale + 2 * j), load2f(x.scale))), twice(load2f(k->min + 2 * j)),
         x);
}

INLINE __m512i nibbles_k(const uint8_t *qs) {
    return _mm512_and_si512(shift_upper(_mm512_broadcast_i64x4(load32(qs)), 0, 4), _mm512_set1_epi8(15));
}

INLINE void row_q4_k(const char *row, int64_t n, const DotColumn *x, Lanes *s) {
    const BlockQ4_K *b = (const BlockQ4_K *)(const void *)row;
    for (int64_t i = 0; i < n; i += 256, b++) {
        ScalesK k;
        scales_k(b->scales, b->d, b->dmin, &k);
        for (int j = 0; j < 4; j++)
            step_k(s, nibbles_k(b->qs + 32 * j), &k, j, column_at(x, i + RP_SPAN * j));
    }
}

INLINE void row_q5_k(const char *row, int64_t n, const DotColumn *x, Lanes *s) {
    const BlockQ5_K *b   = (const BlockQ5_K *)(const void *)row;
    const __m512i    one = _mm512_set1_epi8(1);
    for (int64_t i = 0; i < n; i += 256, b++) {
        const __m512i high = _mm512_broadcast_i64x4(load32(b->qh));
        ScalesK       k;
        scales_k(b->scales, b->d, b->dmin, &k);
        for (int j = 0; j < 4; j++) {
            const __m512i fifth = _mm512_and_si512(shift_upper(high, 2 * j, 2 * j + 1), one);
            const __m512i w     = _mm512_or_si512(nibbles_k(b->qs + 32 * j), _mm512_slli_epi16(fifth, 4));
            step_k(s, w, &k, j, column_at(x, i + RP_SPAN * j));
        }
    }
}

INLINE void row_q6_k(const char *row, int64_t n, const DotColumn *x, Lanes *s) {
    const BlockQ6_K *b     = (const BlockQ6_K *)(const void *)row;
    const __m512i    three = _mm512_set1_epi8(3), fifteen = _mm512_set1_epi8(15);
    for (int64_t i = 0; i < n; i += 256, b++) {
        const __m128 d = _mm_broadcastss_ps(halves(b->d, 0));
        for (int j = 0; j < 4; j++) {
            const int     h = j / 2, high = j % 2;
            const At      at   = column_at(x, i + RP_SPAN * j);
            const __m512i ql   = _mm512_loadu_si512(b->ql + 64 * h);
            const __m512i qh   = _mm512_broadcast_i64x4(load32(b->qh + 32 * h));
            const __m512i four = _mm512_and_si512(high ? _mm512_srli_epi16(ql, 4) : ql, fifteen);
            const __m512i two  = _mm512_and_si512(shift_upper(qh, 4 * high, 4 * high + 2), three);
            const __m512i w    = _mm512_or_si512(four, _mm512_slli_epi16(two, 4));
            int32_t       packed;
            memcpy(&packed, b->scales + 4 * j, sizeof packed);
            const __m128 scale = _mm_mul_ps(d, _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(packed))));
            step(s, w, by_group(_mm_mul_ps(scale, twice(load2f(at.scale)))),
                 _mm_mul_ps(_mm_set1_ps(-32.0f), scale), at);
        }
    }
}

/* ---- */

/* The tree of dot.h. */
INLINE float result(const Lanes *s) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(s->acc), _mm512_extractf32x8_ps(s->acc, 1));
    const __m128 four  = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two   = _mm_add_ps(four, _mm_movehl_ps(four, four));
    const __m128 low   = _mm_add_ps(s->low, _mm_movehl_ps(s->low, s->low));
    const __m128 sum   = _mm_add_ss(two, _mm_movehdup_ps(two));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_add_ss(low, _mm_movehdup_ps(low))));
}

#define ROWS(name)                                                                                           \
    RP_TARGET_AVX512 static void rows_##name(const char *w, size_t stride, int64_t n_rows, int64_t n,        \
                                             const DotColumn *x, float *y) {                                 \
        for (int64_t m = 0; m < n_rows; m++) {                                                               \
            Lanes s = {_mm512_setzero_ps(), _mm_setzero_ps()};                                               \
            row_##name(w + (size_t)m * stride, n, x, &s);                                                    \
            y[m] = result(&s);                                                                               \
        }                                                                                                    \
    }

ROWS(q4_0)
ROWS(q4_1)
ROWS(q5_0)
ROWS(q5_1)
ROWS(q8_0)
ROWS(q4_k)
ROWS(q5_k)
ROWS(q6_k)

GemvFunction *rp_gemv_avx512(RpDtype dtype) {
    static GemvFunction *const table[RP_DTYPE_COUNT] = {
        [RP_Q4_0] = rows_q4_0, [RP_Q4_1] = rows_q4_1, [RP_Q5_0] = rows_q5_0, [RP_Q5_1] = rows_q5_1,
        [RP_Q8_0] = rows_q8_0, [RP_Q4_K] = rows_q4_k, [RP_Q5_K] = rows_q5_k, [RP_Q6_K] = rows_q6_k,
    };
    return table[dtype];
}
#endif
