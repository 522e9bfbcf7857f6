/* float.h - half floats and the exponential, in plain C that compilers vectorise. */
#ifndef FALLBACK_FLOAT_H
#define FALLBACK_FLOAT_H

#include "fallback/simd.h"

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

/* IEEE binary16. Normal numbers and zeros are rebiased by one multiplication, which is exact for subnormals
 * too. */
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

/* Rounds to nearest even; NaN stays NaN. */
RP_BODY uint16_t rp_f32_to_f16(float f) {
    const uint32_t bits = rp_f32_to_bits(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
    if (a < 0x38800000u) {                                  /* subnormal: let the adder round */
        const float r = rp_bits_to_f32(a) + 0.5f;
        return (uint16_t)(sign | (rp_f32_to_bits(r) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a + 0xfff + (a >> 13 & 1) - 0x38000000u) >> 13));
}

RP_BODY float rp_bf16_to_f32(uint16_t h) { return rp_bits_to_f32((uint32_t)h << 16); }

RP_BODY uint16_t rp_f32_to_bf16(float f) {
    const uint32_t bits = rp_f32_to_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* exp(x) within 2 ulp for x in [-87, 88]; below, a value of at most 2e-38 (0 from -104 on); above 88.7
 * infinity. x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its Taylor polynomial of degree 7. */
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
    /* 2^n in two factors, so that results at both ends of the range are rounded once */
    const int32_t half = (int32_t)n / 2, rest = (int32_t)n - half;
    const float   y =
        p * rp_bits_to_f32((uint32_t)(half + 127) << 23) * rp_bits_to_f32((uint32_t)(rest + 127) << 23);
    /* a NaN's y is 0: its bits are put in by a mask, since a choice keeps gcc from vectorising for AVX2 */
    return rp_bits_to_f32(rp_f32_to_bits(y) | (rp_f32_to_bits(x) & (0u - (uint32_t)(x != x))));
}

#endif
