/* spans_neon.h - weights in registers, 128 elements at a time: one span of units of 32, or two of 16.
 *
 * A load is what a type takes at once: four blocks of 32, or a block of 256. It has four parts in an order of
 * the type's own, of two vectors of 16 elements or of four.
 *
 * Included by one file a variant, which defines INLINE. */
#ifndef FALLBACK_GEMV_LOAD_NEON_H
#define FALLBACK_GEMV_LOAD_NEON_H

#include "fallback/dot.h"

#include <arm_neon.h>

enum { MAX_SPANS = 4, MAX_VECTORS = 4, STRETCH = 128, STRETCH_VECTORS = 8, STRETCH_SPANS = 2 };

enum { TILE_ROWS = 8, TILE_VECTORS = 2, TILE_COLS = 4 };

enum { WIDE_OFFSET = 128 }; /* of quants of 8 bits, in the form of their type */

/* The vectors of one part, without the type's offset. */
typedef void LoadPart(const char *block, int part, int8x16_t *v);

/* Scales and minima of each span; of types in blocks of 32 those of `units` blocks, 1 to 4, and zeros after
 * them. */
typedef void LoadScales(const char *block, int units, float32x4_t *scale, float32x4_t *min);

typedef struct SpanType {
    LoadPart   *part;
    LoadScales *scales;
    int         n_spans, n_vectors; /* of a load; of a part */
    size_t      bytes;              /* of a load */
    bool        wide;               /* quants of 8 bits; others have 6 at most */
    QuantForm   form;               /* with the offset of the vectors, some of which have none any more */
} SpanType;

INLINE int stretches(const SpanType *t) { return t->n_spans * RP_SPAN_UNITS * t->form.unit / STRETCH; }

/* Stretch k of a load, in the order of its elements; zeros after `units` blocks of 32. */
INLINE void load_stretch(const SpanType *t, const char *p, int k, int units, int8x16_t *v) {
    const int parts = STRETCH_VECTORS / t->n_vectors;
#pragma GCC unroll 4
    for (int i = 0; i < parts; i++) {
        int8x16_t part[MAX_VECTORS] = {vdupq_n_s8(0), vdupq_n_s8(0)};
        if (t->n_spans > 1 || i < units) t->part(p, k * parts + i, part);
#pragma GCC unroll 4
        for (int j = 0; j < t->n_vectors; j++)
            v[t->form.unit == 16 ? i + parts * j : i * t->n_vectors + j] = part[j];
    }
}

INLINE uint8x16_t load16(const void *p) { return vld1q_u8(p); }

INLINE void nibbles(uint8x16_t v, int8x16_t *low, int8x16_t *high) {
    *low  = vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15)));
    *high = vreinterpretq_s8_u8(vshrq_n_u8(v, 4));
}

/* v with the bits of `mask` taken from `bits`. */
INLINE int8x16_t with_bits(int8x16_t v, uint8_t mask, uint8x16_t bits) {
    return vreinterpretq_s8_u8(vbslq_u8(vdupq_n_u8(mask), bits, vreinterpretq_u8_s8(v)));
}

/* ---- types in blocks of 32: a part is a block ---- */

/* The half at the start of each block. */
INLINE float32x4_t halves_of_blocks(const char *p, size_t stride, int units) {
    uint16x4_t v =
        units > 3 ? vld1_dup_u16((const void *)p) : vld1_lane_u16((const void *)p, vdup_n_u16(0), 0);
    if (units > 1) v = vld1_lane_u16((const void *)(p + stride), v, 1);
    if (units > 2) v = vld1_lane_u16((const void *)(p + 2 * stride), v, 2);
    if (units > 3) v = vld1_lane_u16((const void *)(p + 3 * stride), v, 3);
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

/* The scale and the minimum at the start of each block. */
INLINE void pairs_of_blocks(const char *p, size_t stride, int units, float32x4_t *scale, float32x4_t *min) {
    uint32x4_t v =
        units > 3 ? vld1q_dup_u32((const void *)p) : vld1q_lane_u32((const void *)p, vdupq_n_u32(0), 0);
    if (units > 1) v = vld1q_lane_u32((const void *)(p + stride), v, 1);
    if (units > 2) v = vld1q_lane_u32((const void *)(p + 2 * stride), v, 2);
    if (units > 3) v = vld1q_lane_u32((const void *)(p + 3 * stride), v, 3);
    *scale = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v)));
    *min   = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(v, 16)));
}

/* Adds to each element of a block the fifth bit that stands in the word at p. */
INLINE void add_fifth_bits(const char *p, int8x16_t *v) {
    static const uint8_t bytes[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                      2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    const uint8x16_t     word      = load16(p); /* and 12 bytes of quants */
    const uint8x16_t     bit       = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    v[0]                           = with_bits(v[0], 16, vtstq_u8(vqtbl1q_u8(word, load16(bytes)), bit));
    v[1]                           = with_bits(v[1], 16, vtstq_u8(vqtbl1q_u8(word, load16(bytes + 16)), bit));
}

INLINE void scales_q4_0(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ4_0), units);
}
INLINE void part_q4_0(const char *p, int part, int8x16_t *v) {
    nibbles(load16(p + (size_t)part * sizeof(BlockQ4_0) + 2), &v[0], &v[1]);
}

INLINE void scales_q4_1(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ4_1), units, scale, min);
}
INLINE void part_q4_1(const char *p, int part, int8x16_t *v) {
    nibbles(load16(p + (size_t)part * sizeof(BlockQ4_1) + 4), &v[0], &v[1]);
}

INLINE void scales_q5_0(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ5_0), units);
}
INLINE void part_q5_0(const char *p, int part, int8x16_t *v) {
    p += (size_t)part * sizeof(BlockQ5_0);
    nibbles(load16(p + 6), &v[0], &v[1]);
    add_fifth_bits(p + 2, v);
}

INLINE void scales_q5_1(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ5_1), units, scale, min);
}
INLINE void part_q5_1(const char *p, int part, int8x16_t *v) {
    p += (size_t)part * sizeof(BlockQ5_1);
    nibbles(load16(p + 8), &v[0], &v[1]);
    add_fifth_bits(p + 4, v);
}

INLINE void scales_q8_0(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ8_0), units);
}
INLINE void part_q8_0(const char *p, int part, int8x16_t *v) {
    p += (size_t)part * sizeof(BlockQ8_0) + 2;
    v[0] = vld1q_s8((const int8_t *)p);
    v[1] = vld1q_s8((const int8_t *)p + 16);
}

/* 2^(e - 128), as in unpack.c. */
INLINE void scales_mxfp4(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    const uint8_t *e     = (const uint8_t *)p;
    uint8x16_t     bytes = vdupq_n_u8(0);
    bytes                = vld1q_lane_u8(e, bytes, 0);
    if (units > 1) bytes = vld1q_lane_u8(e + sizeof(BlockMXFP4), bytes, 4);
    if (units > 2) bytes = vld1q_lane_u8(e + 2 * sizeof(BlockMXFP4), bytes, 8);
    if (units > 3) bytes = vld1q_lane_u8(e + 3 * sizeof(BlockMXFP4), bytes, 12);
    const uint32x4_t v      = vreinterpretq_u32_u8(bytes);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(v, vdupq_n_u32(1)), 23);
    const uint32x4_t small  = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(v));
    *scale                  = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(v, vdupq_n_u32(2)), small, normal));
}
INLINE void part_mxfp4(const char *p, int part, int8x16_t *v) {
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t     table      = vld1q_s8(values);
    nibbles(load16(p + (size_t)part * sizeof(BlockMXFP4) + 1), &v[0], &v[1]);
    for (int k = 0; k < 2; k++) v[k] = vqtbl1q_s8(table, vreinterpretq_u8_s8(v[k]));
}

/* ---- types in blocks of 256: a part is 64 elements ---- */

INLINE float32x4_t times(float32x4_t d, int lane, uint16x4_t v) {
    return vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(v)), d[lane]);
}

/* The first 16 bytes of a block: d, dmin and three words w of 6-bit fields, which unpack.c describes. Here
 * they become four words of bytes: the first four scales and minima, then the other four. */
INLINE void scales_k(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)units;
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

/* Of 64 elements the first 32 are low nibbles, the others high. */
INLINE void part_q4_k(const char *p, int part, int8x16_t *v) {
    const uint8_t *qs = ((const BlockQ4_K *)(const void *)p)->qs + 32 * part;
    nibbles(load16(qs), &v[0], &v[2]);
    nibbles(load16(qs + 16), &v[1], &v[3]);
}

/* Bit `from` of each byte as bit 4. */
INLINE uint8x16_t bit_to_4(uint8x16_t v, int from) { return from < 4 ? v << (4 - from) : v >> (from - 4); }

INLINE void part_q5_k(const char *p, int part, int8x16_t *v) {
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    nibbles(load16(block->qs + 32 * part), &v[0], &v[2]);
    nibbles(load16(block->qs + 32 * part + 16), &v[1], &v[3]);
    for (int k = 0; k < 4; k++)
        v[k] = with_bits(v[k], 16, bit_to_4(load16(block->qh + 16 * (k % 2)), 2 * part + k / 2));
}

INLINE void scales_q6_k(const char *p, int units, float32x4_t *scale, float32x4_t *min) {
    (void)units, (void)min;
    const BlockQ6_K  *block = (const BlockQ6_K *)(const void *)p;
    const float16x4_t half  = vreinterpret_f16_u16(vdup_n_u16(block->d));
    const int8x16_t   s     = vld1q_s8(block->scales);
    const int16x8_t   first = vmovl_s8(vget_low_s8(s)), second = vmovl_high_s8(s);
    const float32x4_t d = vcvt_f32_f16(half);
    scale[0]            = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(first))), d);
    scale[1]            = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(first)), d);
    scale[2]            = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(second))), d);
    scale[3]            = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(second)), d);
}
INLINE void part_q6_k(const char *p, int part, int8x16_t *v) {
    const BlockQ6_K *block = (const BlockQ6_K *)(const void *)p;
    const uint8_t   *ql    = block->ql + 64 * (part / 2) + 16 * (part % 2);
    const uint8x16_t qh    = load16(block->qh + 32 * (part / 2) + 16 * (part % 2));
    nibbles(load16(ql), &v[0], &v[2]);
    nibbles(load16(ql + 32), &v[1], &v[3]);
    v[0] = with_bits(v[0], 0x30, vshlq_n_u8(qh, 4));
    v[1] = with_bits(v[1], 0x30, vshlq_n_u8(qh, 2));
    v[2] = with_bits(v[2], 0x30, qh);
    v[3] = with_bits(v[3], 0x30, vshrq_n_u8(qh, 2));
}

/* X(ID, name, Block, scales, spans of a load, vectors of a part, wide, unit, offset of vectors, has_min) */
#define SPAN_TYPES(X)                                                                                        \
    X(Q4_0, q4_0, BlockQ4_0, scales_q4_0, 1, 2, false, 32, 8, false)                                         \
    X(Q4_1, q4_1, BlockQ4_1, scales_q4_1, 1, 2, false, 32, 0, true)                                          \
    X(Q5_0, q5_0, BlockQ5_0, scales_q5_0, 1, 2, false, 32, 16, false)                                        \
    X(Q5_1, q5_1, BlockQ5_1, scales_q5_1, 1, 2, false, 32, 0, true)                                          \
    X(Q8_0, q8_0, BlockQ8_0, scales_q8_0, 1, 2, true, 32, 0, false)                                          \
    X(MXFP4, mxfp4, BlockMXFP4, scales_mxfp4, 1, 2, false, 32, 0, false)                                     \
    X(Q4_K, q4_k, BlockQ4_K, scales_k, 2, 4, false, 32, 0, true)                                             \
    X(Q5_K, q5_k, BlockQ5_K, scales_k, 2, 4, false, 32, 0, true)                                             \
    X(Q6_K, q6_k, BlockQ6_K, scales_q6_k, 4, 4, false, 16, 32, false)

/* The type of a row of the table. */
#define SPAN_TYPE(name, Block, scales, spans, vectors, wide, ...)                                            \
    ((SpanType){                                                                                             \
        part_##name, scales, spans, vectors, sizeof(Block) * ((spans) == 1 ? 4 : 1), wide, {__VA_ARGS__}})
#endif
