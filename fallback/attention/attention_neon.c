/* The attention kernels for NEON (attention.h). 16 lanes are four registers; a position at a time times up to four
 * heads, 16 accumulators. Prefetches are those of attention_avx512.c. */
#include "fallback/attention/attention.h"
#include "fallback/simd/prefetch.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = ATTENTION_LANES, VECS = LANES / 4 };

/* 16 elements of a row from element i on, as f32; zeros after dim. */
INLINE void convert_f16(const char *row, int64_t i, int64_t dim, float32x4_t *v) {
    const uint16_t *x           = (const uint16_t *)(const void *)row + i;
    uint16_t        rest[LANES] = {0};
    if (i + LANES > dim) x = memcpy(rest, x, (size_t)(dim - i) * sizeof *x);
    const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(x)), high = vreinterpretq_f16_u16(vld1q_u16(x + 8));
    v[0] = vcvt_f32_f16(vget_low_f16(low)), v[1] = vcvt_high_f32_f16(low);
    v[2] = vcvt_f32_f16(vget_low_f16(high)), v[3] = vcvt_high_f32_f16(high);
}

INLINE void convert_q8_0(const char *row, int64_t i, float32x4_t *v) {
    const BlockQ8_0  *b   = (const BlockQ8_0 *)(const void *)row + i / 32;
    const float32x4_t d   = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(b->d)));
    const int8x16_t   q   = vld1q_s8(b->qs + i % 32);
    const int16x8_t   low = vmovl_s8(vget_low_s8(q)), high = vmovl_high_s8(q);
    v[0] = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), d);
    v[1] = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(low)), d);
    v[2] = vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), d);
    v[3] = vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(high)), d);
}

INLINE void load_f32(const char *row, int64_t i, int64_t dim, float32x4_t *v) {
    const float *x           = (const float *)(const void *)row + i;
    float        rest[LANES] = {0};
    if (i + LANES > dim) x = memcpy(rest, x, (size_t)(dim - i) * sizeof *x);
    for (int c = 0; c < VECS; c++) v[c] = vld1q_f32(x + 4 * c);
}

INLINE void load(RpDtype type, const char *row, int64_t i, int64_t dim, float32x4_t *v) {
    if (type == RP_Q8_0)
        convert_q8_0(row, i, v);
    else if (type == RP_F32)
        load_f32(row, i, dim, v);
    else
        convert_f16(row, i, dim, v);
}

/* The upper half of the lanes is added to the lower half until one is left. */
INLINE float reduce16(const float32x4_t *v) {
    const float32x4_t four = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
    const float32x2_t two  = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* Prefetches the value of each position, which `values` reads after the softmax update. */
INLINE void scores(const AttentionTile *t, RpDtype type, int n_heads) {
    const size_t bytes = attention_bytes(type, t->dim);
    for (int j = 0; j < t->n; j++) {
        float32x4_t dot[ATTENTION_HEADS][VECS];
        prefetch_kv(t, type, t->v + (size_t)j * t->v_row, bytes);
        for (int h = 0; h < n_heads; h++)
            for (int c = 0; c < VECS; c++) dot[h][c] = vdupq_n_f32(0.0f);
        for (int64_t i = 0; i < t->dim; i += LANES) {
            float32x4_t k[VECS];
            load(type, t->k + (size_t)j * t->k_row, i, t->dim, k);
            for (int h = 0; h < n_heads; h++)
                for (int c = 0; c < VECS; c++)
                    dot[h][c] = vfmaq_f32(dot[h][c], vld1q_f32(t->heads[h].q + i + 4 * c), k[c]);
        }
        for (int h = 0; h < n_heads; h++) t->heads[h].p[j] = t->scale * reduce16(dot[h]);
    }
}

/* 16 elements of up to four heads at a time. Meanwhile these elements of key j of the next tile are prefetched, so
 * that the passes over i together prefetch the whole key. */
INLINE void values(const AttentionTile *t, RpDtype type, int n_heads) {
    for (int64_t i = 0; i < t->dim; i += LANES) {
        float32x4_t acc[ATTENTION_HEADS][VECS];
        for (int h = 0; h < n_heads; h++)
            for (int c = 0; c < VECS; c++)
                acc[h][c] = vmulq_n_f32(vld1q_f32(t->heads[h].acc + i + 4 * c), t->heads[h].rescale);
        for (int j = 0; j < t->n; j++) {
            float32x4_t v[VECS];
            __builtin_prefetch(t->next_k + (size_t)j * t->k_row + attention_bytes(type, i));
            load(type, t->v + (size_t)j * t->v_row, i, t->dim, v);
            for (int h = 0; h < n_heads; h++)
                for (int c = 0; c < VECS; c++) acc[h][c] = vfmaq_n_f32(acc[h][c], v[c], t->heads[h].p[j]);
        }
        for (int h = 0; h < n_heads; h++)
            for (int c = 0; c < VECS; c++) vst1q_f32(t->heads[h].acc + i + 4 * c, acc[h][c]);
    }
}

/* ---- a whole tile and many queries ---- */

/* out[c][r] = in[r][c] of 4 x 4 floats. */
INLINE void transpose(const float32x4_t *in, float32x4_t *out) {
    const float32x4_t a = vtrn1q_f32(in[0], in[1]), b = vtrn2q_f32(in[0], in[1]), c = vtrn1q_f32(in[2], in[3]),
                      d = vtrn2q_f32(in[2], in[3]);
    out[0]              = vcombine_f32(vget_low_f32(a), vget_low_f32(c));
    out[1]              = vcombine_f32(vget_low_f32(b), vget_low_f32(d));
    out[2]              = vcombine_f32(vget_high_f32(a), vget_high_f32(c));
    out[3]              = vcombine_f32(vget_high_f32(b), vget_high_f32(d));
}

/* Elements i to i + 15 of position j; zeros after the last position and after the row. */
INLINE void load_at(const AttentionTile *t, RpDtype type, const char *rows, size_t row, int j, int64_t i,
                    float32x4_t *v) {
    if (j < t->n)
        load(type, rows + (size_t)j * row, i, t->dim, v);
    else
        for (int c = 0; c < VECS; c++) v[c] = vdupq_n_f32(0.0f);
}

INLINE void load_tile(const AttentionTile *t, RpDtype type) {
    const int64_t padded = attention_dim(t->dim);
    for (int64_t i = 0; i < padded; i += LANES)
        for (int j = 0; j < ATTENTION_TILE; j += 4) {
            float32x4_t k[4][VECS];
            for (int r = 0; r < 4; r++) load_at(t, type, t->k, t->k_row, j + r, i, k[r]);
            for (int c = 0; c < VECS; c++) {
                float32x4_t kt[4];
                transpose((const float32x4_t[]){k[0][c], k[1][c], k[2][c], k[3][c]}, kt);
                for (int r = 0; r < 4; r++) vst1q_f32(t->kt_f32 + (i + 4 * c + r) * ATTENTION_TILE + j, kt[r]);
            }
        }
    for (int j = 0; j < ATTENTION_TILE; j++)
        for (int64_t i = 0; i < padded; i += LANES) {
            float32x4_t v[VECS];
            load_at(t, type, t->v, t->v_row, j, i, v);
            for (int c = 0; c < VECS; c++) vst1q_f32(t->v_f32 + j * padded + i + 4 * c, v[c]);
        }
}

static void load_f16_tile(const AttentionTile *t) { load_tile(t, RP_F16); }
static void load_q8_0_tile(const AttentionTile *t) { load_tile(t, RP_Q8_0); }
static void load_f32_tile(const AttentionTile *t) { load_tile(t, RP_F32); }

typedef float32x4_t Vec;

enum { FLOATS = 4, SCORE_HEADS = 2, VALUE_VECS = VECS };

INLINE Vec  vec_zero(void) { return vdupq_n_f32(0.0f); }
INLINE Vec  vec_all(float x) { return vdupq_n_f32(x); }
INLINE Vec  vec_load(const float *x) { return vld1q_f32(x); }
INLINE Vec  vec_load_once(const float *x) { return vec_load(x); }
INLINE void vec_store(float *x, Vec v) { vst1q_f32(x, v); }
INLINE Vec  vec_add(Vec a, Vec b) { return vaddq_f32(a, b); }
INLINE Vec  vec_mul(Vec a, Vec b) { return vmulq_f32(a, b); }
INLINE Vec  vec_fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }

#include "fallback/attention/whole_tile.h"

static void whole_scores(const AttentionTile *t) { whole_scores_of(t); }
ATTENTION_BY_HEADS(, whole_values_of, f32, RP_F32)

ATTENTION_KERNELS(rp_attention_neon, ,
                  .load         = type == RP_F32    ? load_f32_tile
                                  : type == RP_Q8_0 ? load_q8_0_tile
                                                    : load_f16_tile,
                  .whole_scores = whole_scores, .whole_values = whole_values_of_f32)
#endif
