/* float.h - conversions of f16 and bf16, and the exponential, in plain C that compilers vectorise. Results
 * are exact or have a stated error, and have the same bits on every instruction set (I8). */
#ifndef FALLBACK_SIMD_FLOAT_H
#define FALLBACK_SIMD_FLOAT_H

#include "fallback/simd/simd.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

RP_BODY float rp_bits_to_f32(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

RP_BODY uint32_t rp_f32_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* IEEE binary16 to f32, exact. Shifted by 13 bits, the exponent field is too small by 127 - 15 = 112. One
 * multiplication by 2^112 corrects it, for normal numbers, zeros and subnormals alike. Infinity and NaN get the
 * largest exponent. */
RP_BODY float rp_f16_to_f32(uint16_t h) {
#if defined(__aarch64__)
    __fp16 half; /* one instruction converts four */
    memcpy(&half, &h, sizeof half);
    return (float)half;
#else
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    const float    finite  = rp_bits_to_f32(magnitude) * 0x1p112f;
    const uint32_t special = magnitude | 0x7f800000u;
    return rp_bits_to_f32((magnitude >= 0x0f800000u ? special : rp_f32_to_bits(finite)) | sign);
#endif
}

/* f32 to binary16, to nearest even; NaN stays NaN. Normal: 0xfff plus the lowest bit kept rounds the 13 bits
 * dropped, ties to even. Subnormal: the last mantissa bit of 0.5 + x is worth 2^-24, like that of a binary16
 * subnormal, so the addition rounds. */
RP_BODY uint16_t rp_f32_to_f16(float f) {
    const uint32_t bits = rp_f32_to_bits(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
    if (a < 0x38800000u) {                                  /* below 2^-14 */
        const float r = rp_bits_to_f32(a) + 0.5f;
        return (uint16_t)(sign | (rp_f32_to_bits(r) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a + 0xfff + (a >> 13 & 1) - 0x38000000u) >> 13));
}

RP_BODY float rp_bf16_to_f32(uint16_t h) { return rp_bits_to_f32((uint32_t)h << 16); }

/* To nearest even, as above; NaN stays NaN. */
RP_BODY uint16_t rp_f32_to_bf16(float f) {
    const uint32_t bits = rp_f32_to_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* exp(x) within 2 ulp for x in [-87, 88]; below that at most 2e-38 (0 from -104 on), above 88.7 infinity, NaN for
 * NaN.
 *
 *     n = round(x / ln 2), r = x - n ln 2 with |r| <= ln 2 / 2, exp(x) = 2^n * exp(r)
 *
 * Adding and subtracting 1.5 * 2^23 rounds to an integer. ln 2 is split in two, so that subtracting n ln 2 loses
 * almost no bits. exp(r) is its Taylor polynomial of degree 7. */
RP_BODY float rp_expf(float x) {
    const float magic = 0x1.8p23f;
    const float low   = x > -104.0f ? x : -104.0f;
    const float c     = low > 89.0f ? 89.0f : low;
    const float n     = fmaf(c, 0x1.715476p0f, magic) - magic;
    const float r     = fmaf(n, -0x1.7f7d1cp-20f, fmaf(n, -0x1.62e4p-1f, c));
    float       p     = 0x1.a01a02p-13f;
    p                 = fmaf(p, r, 0x1.6c16c2p-10f);
    p                 = fmaf(p, r, 0x1.111112p-7f);
    p                 = fmaf(p, r, 0x1.555556p-5f);
    p                 = fmaf(p, r, 0x1.555556p-3f);
    p                 = fmaf(p, r, 0.5f);
    p                 = fmaf(p, r, 1.0f);
    p                 = fmaf(p, r, 1.0f);
    /* 2^n as two factors: either exponent fits in a float, and a subnormal result is rounded once. */
    const int32_t half = (int32_t)n / 2, rest = (int32_t)n - half;
    const float   y =
        p * rp_bits_to_f32((uint32_t)(half + 127) << 23) * rp_bits_to_f32((uint32_t)(rest + 127) << 23);
    /* For a NaN, y is 0, and a mask puts in x's bits: a select would stop gcc from vectorising for AVX2. */
    return rp_bits_to_f32(rp_f32_to_bits(y) | (rp_f32_to_bits(x) & (0u - (uint32_t)(x != x))));
}

#endif
