/* Blocks to floats (rp_dequantize_row), in two steps: to the integer form of quants.h, then
 *
 *     y[i] = fma(scale[i/16], q[i] - offset, min[i/16])
 *
 * The functions of the first step also serve the plain product kernels. The block layouts are in quants.h. */
#include "fallback/quants/quants.h"
#include "fallback/simd/float.h"

/* DEQUANTIZE(ID, name) { ... } is the body for one block b. It defines dequantize_<name>, a DequantizeFunction that
 * dispatches on the instruction set. */
#define DEQUANTIZE(ID, name)                                                                                           \
    RP_BODY void name##_block(const Block##ID *b, uint8_t *q, float *scale, float *min);                               \
    RP_BODY void dequantize_##name##_body(const void *blocks, int64_t n, uint8_t *q, float *scale, float *min) {       \
        enum { ELEMS = RP_##ID##_ELEMS };                                                                              \
        const Block##ID *b = blocks;                                                                                   \
        for (int64_t i = 0; i < n / ELEMS; i++)                                                                        \
            name##_block(b + i, q + i * ELEMS, scale + i * ELEMS / RP_SUM_BLOCK, min + i * ELEMS / RP_SUM_BLOCK);      \
    }                                                                                                                  \
    RP_VARIANTS(dequantize_##name, (const void *blocks, int64_t n, uint8_t *q, float *scale, float *min),              \
                (blocks, n, q, scale, min))                                                                            \
    RP_BODY void name##_block(const Block##ID *b, uint8_t *q, float *scale, float *min)

/* n bytes: low nibbles to q[0..n), high nibbles to q[n..2n). */
RP_BODY void nibbles(const uint8_t *qs, int n, uint8_t *q) {
    for (int i = 0; i < n; i++) {
        q[i]     = qs[i] & 15;
        q[i + n] = qs[i] >> 4;
    }
}

/* Bit i of the word at qh becomes bit 4 of q[i]. */
RP_BODY void fifth_bits(const uint8_t *qh, uint8_t *q) {
    uint32_t bits;
    memcpy(&bits, qh, sizeof bits);
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] | (bits >> i & 1) << 4);
}

/* A sub-block of 32 has two sum blocks, so its scale and minimum are stored twice. */
RP_BODY void both_sum_blocks(float *scale, float *min, float d, float m) {
    scale[0] = scale[1] = d;
    min[0] = min[1] = m;
}

DEQUANTIZE(Q4_0, q4_0) {
    const float d = rp_f16_to_f32(b->d);
    nibbles(b->qs, 16, q);
    both_sum_blocks(scale, min, d, 0.0f);
}

DEQUANTIZE(Q4_1, q4_1) {
    nibbles(b->qs, 16, q);
    both_sum_blocks(scale, min, rp_f16_to_f32(b->d), rp_f16_to_f32(b->m));
}

DEQUANTIZE(Q5_0, q5_0) {
    const float d = rp_f16_to_f32(b->d);
    nibbles(b->qs, 16, q);
    fifth_bits(b->qh, q);
    both_sum_blocks(scale, min, d, 0.0f);
}

DEQUANTIZE(Q5_1, q5_1) {
    nibbles(b->qs, 16, q);
    fifth_bits(b->qh, q);
    both_sum_blocks(scale, min, rp_f16_to_f32(b->d), rp_f16_to_f32(b->m));
}

/* Signed quants, raised by 128 to be unsigned like all others. */
DEQUANTIZE(Q8_0, q8_0) {
    const float d = rp_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(b->qs[i] + 128);
    both_sum_blocks(scale, min, d, 0.0f);
}

/* Scales and minima of the eight sub-blocks, in 6 bits each (BlockQ4_K). Example: sub-block 5 has the low nibble of
 * s[9] and the top bits of s[1] as its scale, the high nibble of s[9] and the top bits of s[5] as its minimum. */
RP_BODY void scales_k(const uint8_t *s, float d, float dmin, float *scale, float *min) {
    for (int j = 0; j < 8; j++) {
        const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        const int m  = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
        both_sum_blocks(scale + 2 * j, min + 2 * j, d * (float)sc, -dmin * (float)m);
    }
}

DEQUANTIZE(Q4_K, q4_k) {
    for (int j = 0; j < 4; j++) nibbles(b->qs + 32 * j, 32, q + 64 * j);
    scales_k(b->scales, rp_f16_to_f32(b->d), rp_f16_to_f32(b->dmin), scale, min);
}

/* As q4_k; bits 2j and 2j + 1 of qh[i] are the fifth bits of element i of sub-blocks 2j and 2j + 1. */
DEQUANTIZE(Q5_K, q5_k) {
    for (int j = 0; j < 4; j++) {
        nibbles(b->qs + 32 * j, 32, q + 64 * j);
        for (int i = 0; i < 32; i++) {
            q[64 * j + i]      = (uint8_t)(q[64 * j + i] | (b->qh[i] >> (2 * j) & 1) << 4);
            q[64 * j + 32 + i] = (uint8_t)(q[64 * j + 32 + i] | (b->qh[i] >> (2 * j + 1) & 1) << 4);
        }
    }
    scales_k(b->scales, rp_f16_to_f32(b->d), rp_f16_to_f32(b->dmin), scale, min);
}

/* The four lines of the table at BlockQ6_K, for each half of the block. */
DEQUANTIZE(Q6_K, q6_k) {
    const float d = rp_f16_to_f32(b->d);
    for (int h = 0; h < 2; h++) {
        const uint8_t *ql = b->ql + 64 * h, *qh = b->qh + 32 * h;
        uint8_t       *y = q + 128 * h;
        for (int i = 0; i < 32; i++) {
            y[i]      = (uint8_t)((ql[i] & 15) | (qh[i] & 3) << 4);
            y[i + 32] = (uint8_t)((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4);
            y[i + 64] = (uint8_t)(ql[i] >> 4 | (qh[i] >> 4 & 3) << 4);
            y[i + 96] = (uint8_t)(ql[i + 32] >> 4 | (qh[i] >> 6 & 3) << 4);
        }
    }
    for (int g = 0; g < 16; g++) {
        scale[g] = d * (float)b->scales[g];
        min[g]   = 0.0f;
    }
}

/* 2^(e - 128): half of the block's scale 2^(e - 127), because the values are doubled. For e < 2 it is subnormal. */
RP_BODY float mxfp4_half_scale(uint8_t e) { return rp_bits_to_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23); }

/* The values of BlockMXFP4, doubled and raised by 12: value 1.5 (q = 3) is 2 * 1.5 + 12 = 15. */
DEQUANTIZE(MXFP4, mxfp4) {
    static const uint8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const float          half       = mxfp4_half_scale(b->e);
    for (int i = 0; i < 16; i++) {
        q[i]      = values[b->qs[i] & 15];
        q[i + 16] = values[b->qs[i] >> 4];
    }
    both_sum_blocks(scale, min, half, 0.0f);
}

/* Types with a file of their own: expand.h. */
#define EXPANDED(ID, name, ...)                                                                                        \
    DEQUANTIZE(ID, name) {                                                                                             \
        float s[RP_##ID##_ELEMS / RP_##ID##_SUB], m[RP_##ID##_ELEMS / RP_##ID##_SUB] = {0};                            \
        for (int i = 0; i < RP_##ID##_ELEMS; i += 32) {                                                                \
            int8_t v[32];                                                                                              \
            expand_##name(b, i / 32, v);                                                                               \
            for (int k = 0; k < 32; k++) q[i + k] = (uint8_t)(v[k] + RP_##ID##_OFFSET);                                \
        }                                                                                                              \
        sub_scales_##name(b, s, m);                                                                                    \
        for (int u = 0; u < RP_##ID##_ELEMS / RP_SUM_BLOCK; u++) {                                                     \
            scale[u] = s[u * RP_SUM_BLOCK / RP_##ID##_SUB];                                                            \
            min[u]   = m[u * RP_SUM_BLOCK / RP_##ID##_SUB];                                                            \
        }                                                                                                              \
    }
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED

const QuantForm *rp_quant_form(RpDtype dtype) {
#define X(ID, ...) [RP_##ID]                     = RP_QUANT_FORM(ID),
    static const QuantForm table[RP_DTYPE_COUNT] = {RP_QUANTS(X)};
#undef X
    return (unsigned)dtype < RP_DTYPE_COUNT && table[dtype].sub_elems > 0 ? &table[dtype] : NULL;
}

DequantizeFunction *rp_dequantize_function(RpDtype dtype) {
#define X(ID, name, ...) [RP_##ID]                         = dequantize_##name,
    static DequantizeFunction *const table[RP_DTYPE_COUNT] = {RP_QUANTS(X)};
#undef X
    return (unsigned)dtype < RP_DTYPE_COUNT ? table[dtype] : NULL;
}

RP_BODY void convert_f16_body(const uint16_t *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_f16_to_f32(x[i]);
}
RP_VARIANTS(convert_f16, (const uint16_t *x, int64_t n, float *y), (x, n, y))

RP_BODY void convert_bf16_body(const uint16_t *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = rp_bf16_to_f32(x[i]);
}
RP_VARIANTS(convert_bf16, (const uint16_t *x, int64_t n, float *y), (x, n, y))

/* The second step. */
RP_BODY void quants_to_f32_body(const uint8_t *q, int offset, const float *scale, const float *min, int64_t n,
                                float *y) {
    for (int64_t g = 0; g < n / RP_SUM_BLOCK; g++)
        for (int i = 0; i < RP_SUM_BLOCK; i++)
            y[g * RP_SUM_BLOCK + i] = fmaf(scale[g], (float)(q[g * RP_SUM_BLOCK + i] - offset), min[g]);
}
RP_VARIANTS(quants_to_f32, (const uint8_t *q, int offset, const float *scale, const float *min, int64_t n, float *y),
            (q, offset, scale, min, n, y))

static void blocks_to_f32(RpDtype dtype, const char *row, int64_t n, float *out) {
    enum { SLICE = 256 }; /* whole blocks of every type: of 32 or 256 elements (base/dtypes.h) */
    uint8_t             q[SLICE];
    float               scale[SLICE / RP_SUM_BLOCK], min[SLICE / RP_SUM_BLOCK];
    DequantizeFunction *dequantize = rp_dequantize_function(dtype);
    for (int64_t i = 0; i < n; i += SLICE) {
        const int64_t m = n - i < SLICE ? n - i : SLICE;
        dequantize(row + rp_row_bytes(dtype, i), m, q, scale, min);
        quants_to_f32(q, rp_quant_form(dtype)->offset, scale, min, m, out + i);
    }
}

void rp_dequantize_row(RpDtype dtype, const void *row, int64_t n, float *out) {
    if (row == NULL || out == NULL || n <= 0) return;
    if (dtype == RP_F32)
        memcpy(out, row, (size_t)n * sizeof *out);
    else if (dtype == RP_F16)
        convert_f16(row, n, out);
    else if (dtype == RP_BF16)
        convert_bf16(row, n, out);
    else if (rp_dequantize_function(dtype) != NULL)
        blocks_to_f32(dtype, row, n, out);
    else
        for (int64_t i = 0; i < n; i++) out[i] = NAN;
}
