/* Floats to blocks (rp_quantize_row): the inverse of dequantize.c.
 *
 *     one scale              q = round(x / d), d from the largest magnitude
 *     scale and minimum      q = round((x - m) / d), m the smallest value, d from the range
 *     K types                each sub-block by search: candidate roundings, least squares for each, the best one stays;
 *                            then the scales themselves are rounded to 6 bits (Q6_K: 8)
 *
 * Not a fast path: it runs when models are requantised or synthesised, and in tests. */
#include "reprise/quants.h"

#include "base/argument.h"

#include "fallback/quants/fit.h"
#include "fallback/quants/quants.h"
#include "fallback/simd/float.h"

static void put_fifth_bits(const uint8_t *q, uint8_t *qh) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)(q[i] >> 4) << i;
    memcpy(qh, &bits, sizeof bits);
}

/* ---- blocks of 32 with one scale ---- */

/* q - half in -half..half-1, d = largest / -half: the value of largest magnitude becomes exactly -half. Returns d. */
static uint16_t symmetric(const float *x, int half, uint8_t *q) {
    const float d = rp_largest(x, 32) / (float)-half, id = rp_inverse(d);
    for (int i = 0; i < 32; i++) q[i] = rp_level(x[i] * id + (float)half + 0.5f, 2 * half - 1);
    return rp_f32_to_f16(d);
}

/* q in 0..top: the smallest value becomes 0, the largest becomes top. */
static void affine(const float *x, int top, uint8_t *q, uint16_t *d16, uint16_t *m16) {
    float low, high;
    rp_min_max(x, 32, &low, &high);
    const float d = (high - low) / (float)top, id = rp_inverse(d);
    for (int i = 0; i < 32; i++) q[i] = rp_level((x[i] - low) * id + 0.5f, top);
    *d16 = rp_f32_to_f16(d);
    *m16 = rp_f32_to_f16(low);
}

static void quantize_q4_0(const float *x, void *out) {
    BlockQ4_0 *b = out;
    uint8_t    q[32];
    b->d = symmetric(x, 8, q);
    rp_put_nibbles(q, 16, b->qs);
}

static void quantize_q4_1(const float *x, void *out) {
    BlockQ4_1 *b = out;
    uint8_t    q[32];
    affine(x, 15, q, &b->d, &b->m);
    rp_put_nibbles(q, 16, b->qs);
}

static void quantize_q5_0(const float *x, void *out) {
    BlockQ5_0 *b = out;
    uint8_t    q[32];
    b->d = symmetric(x, 16, q);
    rp_put_nibbles(q, 16, b->qs);
    put_fifth_bits(q, b->qh);
}

static void quantize_q5_1(const float *x, void *out) {
    BlockQ5_1 *b = out;
    uint8_t    q[32];
    affine(x, 31, q, &b->d, &b->m);
    rp_put_nibbles(q, 16, b->qs);
    put_fifth_bits(q, b->qh);
}

/* As in the KV cache (copy.c), quants are 0 if 1/d could overflow. */
static void quantize_q8_0(const float *x, void *out) {
    BlockQ8_0  *b = out;
    const float d = fabsf(rp_largest(x, 32)) / 127.0f, id = d >= RP_SMALLEST_SCALE ? 1.0f / d : 0.0f;
    b->d = rp_f32_to_f16(d);
    for (int i = 0; i < 32; i++) b->qs[i] = (int8_t)roundf(x[i] * id);
}

/* The scale of OCP Microscaling 1.0: 2^(floor(log2(max|x|)) - 2), because the largest value, 6, has the power of
 * two 4. */
static void quantize_mxfp4(const float *x, void *out) {
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    BlockMXFP4        *b          = out;
    const float        top        = fabsf(rp_largest(x, 32));
    int                e          = 0;
    if (top > 0.0f) e = (int)floorf(log2f(top)) - 2 + 127;
    e    = e < 0 ? 0 : (e > 254 ? 254 : e);
    b->e = (uint8_t)e;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) {
        const float v = ldexpf(x[i], 127 - e);
        q[i]          = 0;
        for (int k = 1; k < 16; k++)
            if (fabsf(values[k] - v) < fabsf(values[q[i]] - v)) q[i] = (uint8_t)k;
    }
    rp_put_nibbles(q, 16, b->qs);
}

/* ---- K types: super-blocks of 256, whose sub-blocks have small integer scales ---- */

/* q[i] = round((x[i] + m) / d) in 0..top, for 32 elements. Returns the squared error. */
static float levels(const float *x, float d, float m, int top, uint8_t *q) {
    const float id    = rp_inverse(d);
    float       error = 0.0f;
    for (int i = 0; i < 32; i++) {
        q[i]            = (uint8_t)rp_nearest((x[i] + m) * id, 0, top);
        const float off = d * (float)q[i] - m - x[i];
        error += off * off;
    }
    return error;
}

/* Replaces the 6-bit scale *sc and minimum *m by the neighbours (+-1) with the smallest error. */
static void choose_small(const float *x, float d, float dmin, int top, int *sc, int *m) {
    const int wanted_sc = *sc, wanted_m = *m;
    float     best = INFINITY;
    uint8_t   q[32];
    for (int a = wanted_sc - 1; a <= wanted_sc + 1; a++)
        for (int b = wanted_m - 1; b <= wanted_m + 1; b++) {
            if (a < 0 || a > 63 || b < 0 || b > 63) continue;
            const float error = levels(x, d * (float)a, dmin * (float)b, top, q);
            if (error < best) best = error, *sc = a, *m = b;
        }
}

/* Q4_K and Q5_K: writes d, dmin and the 6-bit scales and minima (`fields`, BlockQ4_K.scales), and the q of all 256
 * elements. */
static void quantize_affine_k(const float *x, int top, uint8_t *fields, uint16_t *d16, uint16_t *dmin16, uint8_t *q) {
    float scale[8], min[8], top_scale = 0.0f, top_min = 0.0f;
    for (int j = 0; j < 8; j++) {
        rp_fit_affine(x + 32 * j, 32, top, &scale[j], &min[j]);
        top_scale = scale[j] > top_scale ? scale[j] : top_scale;
        top_min   = min[j] > top_min ? min[j] : top_min;
    }
    *d16          = rp_f32_to_f16(top_scale / 63.0f);
    *dmin16       = rp_f32_to_f16(top_min / 63.0f);
    const float d = rp_f16_to_f32(*d16), dmin = rp_f16_to_f32(*dmin16);
    memset(fields, 0, 12);
    for (int j = 0; j < 8; j++) {
        int sc = rp_nearest(scale[j] * rp_inverse(d), 0, 63), m = rp_nearest(min[j] * rp_inverse(dmin), 0, 63);
        choose_small(x + 32 * j, d, dmin, top, &sc, &m);
        if (j < 4) {
            fields[j]     = (uint8_t)(fields[j] | sc);
            fields[j + 4] = (uint8_t)(fields[j + 4] | m);
        } else {
            fields[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
            fields[j - 4] = (uint8_t)(fields[j - 4] | (sc >> 4) << 6);
            fields[j]     = (uint8_t)(fields[j] | (m >> 4) << 6);
        }
        (void)levels(x + 32 * j, d * (float)sc, dmin * (float)m, top, q + 32 * j);
    }
}

static void quantize_q4_k(const float *x, void *out) {
    BlockQ4_K *b = out;
    uint8_t    q[256];
    quantize_affine_k(x, 15, b->scales, &b->d, &b->dmin, q);
    for (int j = 0; j < 4; j++) rp_put_nibbles(q + 64 * j, 32, b->qs + 32 * j);
}

static void quantize_q5_k(const float *x, void *out) {
    BlockQ5_K *b = out;
    uint8_t    q[256];
    quantize_affine_k(x, 31, b->scales, &b->d, &b->dmin, q);
    memset(b->qh, 0, sizeof b->qh);
    for (int j = 0; j < 4; j++) rp_put_nibbles(q + 64 * j, 32, b->qs + 32 * j);
    for (int i = 0; i < 256; i++) b->qh[i % 32] = (uint8_t)(b->qh[i % 32] | (q[i] >> 4) << (i / 32));
}

static void quantize_q6_k(const float *x, void *out) {
    BlockQ6_K *b = out;
    float      scale[16];
    uint8_t    q[256];
    for (int j = 0; j < 16; j++) scale[j] = rp_fit_symmetric(x + 16 * j, 16, 32);
    const float top = rp_largest(scale, 16);
    memset(b, 0, sizeof *b);
    b->d          = rp_f32_to_f16(top / -128.0f);
    const float d = rp_f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        b->scales[j]   = (int8_t)rp_nearest(scale[j] * rp_inverse(d), -128, 127);
        const float id = rp_inverse(d * (float)b->scales[j]);
        for (int i = 16 * j; i < 16 * j + 16; i++) q[i] = (uint8_t)(rp_nearest(x[i] * id, -32, 31) + 32);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            const uint8_t *y       = q + 128 * h + i;
            b->ql[64 * h + i]      = (uint8_t)((y[0] & 15) | (y[64] & 15) << 4);
            b->ql[64 * h + 32 + i] = (uint8_t)((y[32] & 15) | (y[96] & 15) << 4);
            b->qh[32 * h + i]      = (uint8_t)(y[0] >> 4 | (y[32] >> 4) << 2 | (y[64] >> 4) << 4 | (y[96] >> 4) << 6);
        }
}

/* ---- public ---- */

typedef void QuantizeFunction(const float *x, void *block);

#define X(ID, name, ...) [RP_##ID] = quantize_##name,
static QuantizeFunction *const table[RP_DTYPE_COUNT] = {RP_QUANTIZED(X)};
#undef X

/* Refuses values that need a scale or minimum above the largest f16, 65504, as ggml's check of quantised data does: the
 * block then holds infinities, NaN, or zeros where a search by squared error overflowed. An error of half of the
 * largest magnitude tells them from rounding, which is a quarter at most. Up to 32768 nothing overflows. `at`: the
 * number of element x[0] in its row. */
static RpStatus check_range(RpDtype dtype, const float *x, const void *block, int64_t at) {
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    float              y[256];
    const float        top = rp_largest(x, info->block_elems);
    if (fabsf(top) <= 32768.0f) return RP_OK;
    rp_dequantize_row(dtype, block, info->block_elems, y);
    for (int i = 0; i < info->block_elems; i++) {
        if (fabsf(y[i] / top - x[i] / top) <= 0.5f) continue;
        while (*x != top) x++, at++;
        return rp_fail(RP_E_ARG, "element %lld of a row, %g, is too large for the scales of %s", (long long)at,
                       (double)top, info->name);
    }
    return RP_OK;
}

RpStatus rp_quantize_row(RpDtype dtype, const float *x, int64_t n, void *out) {
    RP_NOT_NULL(x, "x");
    RP_NOT_NULL(out, "out");
    if (n < 0) return rp_fail(RP_E_ARG, "rp_quantize_row: n is %lld", (long long)n);
    if (dtype == RP_F32) {
        memcpy(out, x, (size_t)n * sizeof *x);
        return RP_OK;
    }
    if (dtype == RP_F16 || dtype == RP_BF16) {
        uint16_t *y = out;
        for (int64_t i = 0; i < n; i++) y[i] = dtype == RP_F16 ? rp_f32_to_f16(x[i]) : rp_f32_to_bf16(x[i]);
        return RP_OK;
    }
    QuantizeFunction *quantize = (unsigned)dtype < RP_DTYPE_COUNT ? table[dtype] : NULL;
    if (quantize == NULL) return rp_fail(RP_E_DTYPE, "rows of %s cannot be quantised", rp_dtype_name(dtype));
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (n % info->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements is not a whole number of %s blocks of %d", (long long)n,
                       info->name, info->block_elems);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return rp_fail(RP_E_ARG, "element %lld of a row is not finite: %s cannot hold it", (long long)i,
                           info->name);
    for (int64_t i = 0; i < n; i += info->block_elems) {
        void *block = (char *)out + i / info->block_elems * info->block_bytes;
        quantize(x + i, block);
        RP_TRY(check_range(dtype, x + i, block, i));
    }
    return RP_OK;
}
