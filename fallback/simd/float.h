/* float.h - conversions of f16 and bf16 in plain C that compilers vectorise, and the exponential of base/exp.h. Results
 * are exact or have a stated error, and have the same bits on every instruction set (I8). */
#ifndef FALLBACK_SIMD_FLOAT_H
#define FALLBACK_SIMD_FLOAT_H

#include "base/exp.h"
#include "fallback/simd/simd.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

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
    const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;
    return rp_bits_to_f32(rp_f32_to_bits(finite) | special | sign);
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

#endif
