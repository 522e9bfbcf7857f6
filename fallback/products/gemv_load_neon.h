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

enum { WIDE_OFFSET = 128 }; /* QuantForm.offset of types with 8-bit q */
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    static_assert(((offset) == WIDE_OFFSET) == ((top) > 63), #name ": q of 8 bits with offset 128, or of 6 bits");
RP_QUANTS(X)
#undef X

/* The vectors of one quarter. LEFT_<type> is the offset that is still in them; without it they are signed.
 * STRIDED_<type> is QuantLoader.strided. */
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

/* Slice k of a load, in the order of the row; zeros after n_subs blocks of 32. With `strided` quarter i has elements
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

/* ---- the types ---- */

#define RP_LOADS_NEON
#include "fallback/quants/types.h"
#undef RP_LOADS_NEON
#include "fallback/products/expand_neon.h"

/* clang-format off */
#define QUANT_LOADER(ID, name)                                                                                         \
    ((QuantLoader){quarter_##name, scales_##name, RP_LOAD_KSTEPS(ID), RP_##ID##_ELEMS == 32 ? 2 : 4,                    \
                   RP_LOAD_BYTES(ID), RP_##ID##_OFFSET == (int)WIDE_OFFSET, STRIDED_##name,                            \
                   {RP_##ID##_SUB, LEFT_##name, RP_##ID##_HAS_MIN, RP_##ID##_TOP}})
/* clang-format on */
#endif
