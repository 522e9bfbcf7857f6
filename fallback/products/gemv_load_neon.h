/* gemv_load_neon.h - loads of weights for NEON: one row at a time, a slice of 128 elements at a time.
 *
 * A load is what a kernel takes of a row at once: four blocks of 32 (one slice), or one super-block of 256 (two). A
 * slice is eight vectors of 16 elements in the order of the row:
 *
 *     32-elem sub-blocks   v[2u], v[2u+1] = sub-block u             one k-step
 *     16-elem sub-blocks   v[4h+u]        = sub-block u of k-step h     two k-steps
 *
 * A type loads a quarter of a load at a time: a block of 32 (2 vectors), or 64 elements of a super-block (4 vectors).
 * load_slice() puts the vectors in order. Included once by each NEON variant, which defines INLINE. */
#ifndef FALLBACK_PRODUCTS_GEMV_LOAD_NEON_H
#define FALLBACK_PRODUCTS_GEMV_LOAD_NEON_H

#include "fallback/products/dot.h"

#include <arm_neon.h>

enum { MAX_KSTEPS = 4, MAX_VECTORS = 4, VECTOR_ELEMS = 16, SLICE = 128, SLICE_VECTORS = 8, SLICE_KSTEPS = 2 };

enum { TILE_ROWS = 8, TILE_VECTORS = 2, TILE_COLS = 4 };

enum { WIDE_OFFSET = 128 }; /* QuantForm.offset of types with 8-bit q: Q8_0 */
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert(((offset) == WIDE_OFFSET) == ((top) > 63), #name ": q of 8 bits with offset 128, or of 6 bits");
RP_QUANTS(X)
#undef X

/* The vectors of one quarter. LEFT_<type> is the offset that is still in them; without it they are signed. */
typedef void LoadQuarter(const char *block, int quarter, int8x16_t *v);

/* scale[h] and min[h] of k-step h: lane u is sub-block u. Blocks of 32: those of n_subs blocks, 1 to 4, then zeros. */
typedef void LoadScales(const char *block, int n_subs, float32x4_t *scale, float32x4_t *min);

typedef struct QuantLoader {
    LoadQuarter *quarter;
    LoadScales  *scales;
    int          n_ksteps, n_vectors; /* k-steps of a load; vectors of a quarter */
    size_t       bytes;               /* of a load */
    bool         wide;                /* 8-bit q, whose products need 32-bit sums; others have 6 bits at most */
    bool      strided; /* vector j of quarter i is vector i + 4j of the slice, else 4i + j (2i + j in blocks of 32) */
    QuantForm form;    /* as rp_quant_form, but with the offset that is still in the vectors */
} QuantLoader;

INLINE int n_slices(const QuantLoader *t) { return t->n_ksteps * RP_KSTEP_SUBS * t->form.sub_elems / SLICE; }

/* Slice k of a load, in the order of the row; zeros after n_subs blocks of 32. Quarter i of Q6_K has elements
 * 16i + {0, 32, 64, 96} of the slice, the others have consecutive elements. */
INLINE void load_slice(const QuantLoader *t, const char *p, int k, int n_subs, int8x16_t *v) {
    const int quarters = SLICE_VECTORS / t->n_vectors;
#pragma GCC unroll 4
    for (int i = 0; i < quarters; i++) {
        int8x16_t quarter[MAX_VECTORS] = {vdupq_n_s8(0), vdupq_n_s8(0)};
        if (t->n_ksteps > 1 || i < n_subs) t->quarter(p, k * quarters + i, quarter);
#pragma GCC unroll 4
        for (int j = 0; j < t->n_vectors; j++) v[t->strided ? i + quarters * j : i * t->n_vectors + j] = quarter[j];
    }
}

INLINE uint8x16_t load16(const void *p) { return vld1q_u8(p); }

INLINE void nibbles(uint8x16_t v, int8x16_t *low, int8x16_t *high) {
    *low  = vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15)));
    *high = vreinterpretq_s8_u8(vshrq_n_u8(v, 4));
}

/* (v & ~mask) | (bits & mask) */
INLINE int8x16_t with_bits(int8x16_t v, uint8_t mask, uint8x16_t bits) {
    return vreinterpretq_s8_u8(vbslq_u8(vdupq_n_u8(mask), bits, vreinterpretq_u8_s8(v)));
}

/* ---- types in blocks of 32: a quarter is a block ---- */

/* The half float at the start of each of n_subs blocks. */
INLINE float32x4_t halves_of_blocks(const char *p, size_t stride, int n_subs) {
    uint16x4_t v = n_subs > 3 ? vld1_dup_u16((const void *)p) : vld1_lane_u16((const void *)p, vdup_n_u16(0), 0);
    if (n_subs > 1) v = vld1_lane_u16((const void *)(p + stride), v, 1);
    if (n_subs > 2) v = vld1_lane_u16((const void *)(p + 2 * stride), v, 2);
    if (n_subs > 3) v = vld1_lane_u16((const void *)(p + 3 * stride), v, 3);
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

/* The scale and the minimum at the start of each block. */
INLINE void pairs_of_blocks(const char *p, size_t stride, int n_subs, float32x4_t *scale, float32x4_t *min) {
    uint32x4_t v = n_subs > 3 ? vld1q_dup_u32((const void *)p) : vld1q_lane_u32((const void *)p, vdupq_n_u32(0), 0);
    if (n_subs > 1) v = vld1q_lane_u32((const void *)(p + stride), v, 1);
    if (n_subs > 2) v = vld1q_lane_u32((const void *)(p + 2 * stride), v, 2);
    if (n_subs > 3) v = vld1q_lane_u32((const void *)(p + 3 * stride), v, 3);
    *scale = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v)));
    *min   = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(v, 16)));
}

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

INLINE void scales_q4_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ4_0), n_subs);
}
enum { LEFT_q4_0 = RP_Q4_0_OFFSET };
INLINE void quarter_q4_0(const char *p, int quarter, int8x16_t *v) {
    nibbles(load16(p + (size_t)quarter * sizeof(BlockQ4_0) + 2), &v[0], &v[1]);
}

INLINE void scales_q4_1(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ4_1), n_subs, scale, min);
}
enum { LEFT_q4_1 = 0 };
INLINE void quarter_q4_1(const char *p, int quarter, int8x16_t *v) {
    nibbles(load16(p + (size_t)quarter * sizeof(BlockQ4_1) + 4), &v[0], &v[1]);
}

INLINE void scales_q5_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ5_0), n_subs);
}
enum { LEFT_q5_0 = RP_Q5_0_OFFSET };
INLINE void quarter_q5_0(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ5_0);
    nibbles(load16(p + 6), &v[0], &v[1]);
    add_fifth_bits(p + 2, v);
}

INLINE void scales_q5_1(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    pairs_of_blocks(p, sizeof(BlockQ5_1), n_subs, scale, min);
}
enum { LEFT_q5_1 = 0 };
INLINE void quarter_q5_1(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ5_1);
    nibbles(load16(p + 8), &v[0], &v[1]);
    add_fifth_bits(p + 4, v);
}

INLINE void scales_q8_0(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    *scale = halves_of_blocks(p, sizeof(BlockQ8_0), n_subs);
}
enum { LEFT_q8_0 = 0 };
INLINE void quarter_q8_0(const char *p, int quarter, int8x16_t *v) {
    p += (size_t)quarter * sizeof(BlockQ8_0) + 2;
    v[0] = vld1q_s8((const int8_t *)p);
    v[1] = vld1q_s8((const int8_t *)p + 16);
}

/* 2^(e - 128): see mxfp4_half_scale in dequantize.c. */
INLINE void scales_mxfp4(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)min;
    const uint8_t *e     = (const uint8_t *)p;
    uint8x16_t     bytes = vdupq_n_u8(0);
    bytes                = vld1q_lane_u8(e, bytes, 0);
    if (n_subs > 1) bytes = vld1q_lane_u8(e + sizeof(BlockMXFP4), bytes, 4);
    if (n_subs > 2) bytes = vld1q_lane_u8(e + 2 * sizeof(BlockMXFP4), bytes, 8);
    if (n_subs > 3) bytes = vld1q_lane_u8(e + 3 * sizeof(BlockMXFP4), bytes, 12);
    const uint32x4_t v      = vreinterpretq_u32_u8(bytes);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(v, vdupq_n_u32(1)), 23);
    const uint32x4_t small  = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(v));
    *scale                  = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(v, vdupq_n_u32(2)), small, normal));
}
enum { LEFT_mxfp4 = 0 };
INLINE void quarter_mxfp4(const char *p, int quarter, int8x16_t *v) {
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t     table      = vld1q_s8(values);
    nibbles(load16(p + (size_t)quarter * sizeof(BlockMXFP4) + 1), &v[0], &v[1]);
    for (int k = 0; k < 2; k++) v[k] = vqtbl1q_s8(table, vreinterpretq_u8_s8(v[k]));
}

/* ---- types in blocks of 256: a quarter is 64 elements ---- */

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

INLINE void scales_q4_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    scales_k(p, n_subs, scale, min);
}
INLINE void scales_q5_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    scales_k(p, n_subs, scale, min);
}

enum { LEFT_q4_k = 0 };
/* 32 bytes of qs: low nibbles are one sub-block, high nibbles the next. */
INLINE void quarter_q4_k(const char *p, int quarter, int8x16_t *v) {
    const uint8_t *qs = ((const BlockQ4_K *)(const void *)p)->qs + 32 * quarter;
    nibbles(load16(qs), &v[0], &v[2]);
    nibbles(load16(qs + 16), &v[1], &v[3]);
}

/* Moves bit `from` of each byte to bit 4. */
INLINE uint8x16_t bit_to_4(uint8x16_t v, int from) { return from < 4 ? v << (4 - from) : v >> (from - 4); }

enum { LEFT_q5_k = 0 };
INLINE void quarter_q5_k(const char *p, int quarter, int8x16_t *v) {
    const BlockQ5_K *block = (const BlockQ5_K *)(const void *)p;
    nibbles(load16(block->qs + 32 * quarter), &v[0], &v[2]);
    nibbles(load16(block->qs + 32 * quarter + 16), &v[1], &v[3]);
    for (int k = 0; k < 4; k++)
        v[k] = with_bits(v[k], 16, bit_to_4(load16(block->qh + 16 * (k % 2)), 2 * quarter + k / 2));
}

INLINE void scales_q6_k(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {
    (void)n_subs, (void)min;
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
enum { LEFT_q6_k = RP_Q6_K_OFFSET };
/* Quarter 2h + i: 16 elements of each line of the table at BlockQ6_K, from element 16i of half h on. */
INLINE void quarter_q6_k(const char *p, int quarter, int8x16_t *v) {
    const BlockQ6_K *block = (const BlockQ6_K *)(const void *)p;
    const uint8_t   *ql    = block->ql + 64 * (quarter / 2) + 16 * (quarter % 2);
    const uint8x16_t qh    = load16(block->qh + 32 * (quarter / 2) + 16 * (quarter % 2));
    nibbles(load16(ql), &v[0], &v[2]);
    nibbles(load16(ql + 32), &v[1], &v[3]);
    v[0] = with_bits(v[0], 0x30, vshlq_n_u8(qh, 4));
    v[1] = with_bits(v[1], 0x30, vshlq_n_u8(qh, 2));
    v[2] = with_bits(v[2], 0x30, qh);
    v[3] = with_bits(v[3], 0x30, vshrq_n_u8(qh, 2));
}

#include "fallback/products/expand_neon.h"

/* clang-format off */
#define QUANT_LOADER(ID, name)                                                                                         \
    ((QuantLoader){quarter_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_ELEMS == 32 ? 2 : 4,                    \
                   RP_LOAD_BYTES(ID), RP_##ID##_OFFSET == (int)WIDE_OFFSET, RP_##ID == RP_Q6_K,                        \
                   {RP_##ID##_SUB, LEFT_##name, RP_##ID##_HAS_MIN, RP_##ID##_TOP}})
/* clang-format on */
#endif
