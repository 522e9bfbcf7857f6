/* y = x as q8_act (reprise/tensor.h): activations for integer dot products.
 *
 *     row of n elements: quants int8 [n] | scale f32 [n/32] | sum f32 [n/16]
 *     scale = max|x| / 127 over 32 elements
 *     quants[i] = round(x[i] * 127 / max|x|), to nearest even, -127..127
 *     sum[j] = scale * (sum of quants 16j .. 16j+15)
 *
 * A block with a NaN or an infinity gets a NaN scale and zero quants, so that it shows in every product. Quants are 0
 * too if the scale is below RP_SMALLEST_SCALE, as 127 / max|x| could overflow. */
#include "fallback/fused/fused.h"
#include "fallback/simd/float.h"

/* Magnitudes are compared as integers: without the sign bit the bits of floats are ordered like their values, with
 * infinity and NaN above all numbers. So one maximum finds both the largest element and a bad one, in any order.
 *
 * Adding and subtracting magic = 1.5 * 2^23 rounds to the nearest even integer: floats in [2^23, 2^24) are integers.
 * Example: 2.5 + 12582912 is halfway between 12582914 and 12582915 and rounds to the even 12582914, so r = 2. */
RP_BODY void quantize_row_body(const float *x, int64_t n, int8_t *q, float *scale, float *sum) {
    for (int64_t b = 0; b < n / 32; b++) {
        const float *v   = x + 32 * b;
        int32_t      top = 0, half[2] = {0, 0};
        for (int i = 0; i < 32; i++) {
            const int32_t magnitude = (int32_t)(rp_f32_to_bits(v[i]) & 0x7fffffffu);
            top                     = magnitude > top ? magnitude : top;
        }
        const bool  finite  = top < 0x7f800000;
        const float largest = rp_bits_to_f32((uint32_t)top), magic = 0x1.8p23f;
        const float d  = finite ? largest / 127.0f : NAN;
        const float id = finite && d >= RP_SMALLEST_SCALE ? 127.0f / largest : 0.0f;
        int32_t     r[32];
        for (int i = 0; i < 32; i++) r[i] = finite ? (int32_t)((v[i] * id + magic) - magic) : 0;
        for (int i = 0; i < 32; i++) q[32 * b + i] = (int8_t)r[i];
        for (int i = 0; i < 16; i++) half[0] += r[i];
        for (int i = 0; i < 16; i++) half[1] += r[16 + i];
        scale[b]       = d;
        sum[2 * b]     = d * (float)half[0];
        sum[2 * b + 1] = d * (float)half[1];
    }
}
RP_VARIANTS(quantize_row, (const float *x, int64_t n, int8_t *q, float *scale, float *sum), (x, n, q, scale, sum))

void rp_quantize_range(const float *x, int64_t n, char *row, int64_t row_n, int64_t at) {
    float *scale = (float *)(void *)(row + row_n), *sum = scale + row_n / 32;
    quantize_row(x, n, (int8_t *)row + at, scale + at / 32, sum + at / 16);
}

RpStatus rp_cpu_quantize(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->quantize.x, *y = &args->dst;
    const int64_t       n = x->ne[0], blocks = n / 32, total = rp_view_rows(x) * blocks;
    RP_TRY(RP_CHECK(quantize, args));
    /* Work is divided by blocks, not rows, so that a single token keeps every worker busy. */
    const int64_t first = total * ctx->ith / ctx->nth, last = total * (ctx->ith + 1) / ctx->nth;
    for (int64_t i = first; i < last;) {
        const int64_t r = i / blocks, b = i % blocks, count = last - i < blocks - b ? last - i : blocks - b;
        int8_t       *q     = rp_view_row(y, r);
        float        *scale = (float *)(void *)(q + n);
        quantize_row((const float *)rp_view_row(x, r) + 32 * b, 32 * count, q + 32 * b, scale + b,
                     scale + blocks + 2 * b);
        i += count;
    }
    return RP_OK;
}
