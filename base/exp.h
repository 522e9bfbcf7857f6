/* exp.h - the exponential of the CPU kernels, for host and device code: the same bits on both, where a choice depends
 * on them. Plain C that compilers vectorise. */
#ifndef BASE_EXP_H
#define BASE_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RP_EXP_FUNCTION __host__ __device__ static inline
#else
#define RP_EXP_FUNCTION static inline __attribute__((always_inline))
#endif

RP_EXP_FUNCTION float rp_bits_to_f32(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

RP_EXP_FUNCTION uint32_t rp_f32_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* exp(x) within 2 ulp for x in [-87, 88]; below that at most 2e-38 (0 from -104 on), above 88.7 infinity, NaN for
 * NaN.
 *
 *     n = round(x / ln 2), r = x - n ln 2 with |r| <= ln 2 / 2, exp(x) = 2^n * exp(r)
 *
 * Adding and subtracting 1.5 * 2^23 rounds to an integer. ln 2 is split in two, so that subtracting n ln 2 loses
 * almost no bits. exp(r) is its Taylor polynomial of degree 7. No product is added outside of an fma, so that no
 * compiler contracts anything. */
RP_EXP_FUNCTION float rp_expf(float x) {
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
    const float   y = p * rp_bits_to_f32((uint32_t)(half + 127) << 23) * rp_bits_to_f32((uint32_t)(rest + 127) << 23);
    /* For a NaN, y is 0, and a mask puts in x's bits: a select would stop gcc from vectorising for AVX2. */
    return rp_bits_to_f32(rp_f32_to_bits(y) | (rp_f32_to_bits(x) & (0u - (uint32_t)(x != x))));
}

#endif
