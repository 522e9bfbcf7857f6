/* float_pair.cuh - numbers as unevaluated sums of two floats, high + low with |low| <= ulp(high) / 2: about 46 bits, in
 * place of doubles, which are slow on most devices (Dekker 1971; Ogita, Rump and Oishi 2005). Relative errors are about
 * 2^-46 an operation. The intrinsics keep the compiler from contracting or reassociating the error terms. */
#ifndef KERNELS_DEVICE_FLOAT_PAIR_CUH
#define KERNELS_DEVICE_FLOAT_PAIR_CUH

#include "kernels/device/device.cuh"

struct FloatPair {
    float high, low;
};

static inline FloatPair rp_pair_of(double v) { return {(float)v, (float)(v - (double)(float)v)}; }

/* high + low with |high| >= |low|, without an error. */
__device__ static inline FloatPair rp_pair_normal(float high, float low) {
    const float sum = __fadd_rn(high, low);
    return {sum, __fsub_rn(low, __fsub_rn(sum, high))};
}

__device__ static inline FloatPair rp_pair_product(const FloatPair &a, const FloatPair &b) {
    const float high = __fmul_rn(a.high, b.high);
    return rp_pair_normal(high, fmaf(a.high, b.high, -high) + fmaf(a.high, b.low, __fmul_rn(a.low, b.high)));
}

__device__ static inline FloatPair rp_pair_quotient(const FloatPair &a, float b) {
    const float high = a.high / b;
    return rp_pair_normal(high, (fmaf(-high, b, a.high) + a.low) / b);
}

__device__ static inline FloatPair rp_pair_add(const FloatPair &a, const FloatPair &b) {
    const float high = __fadd_rn(a.high, b.high), other = __fsub_rn(high, a.high);
    const float rest = __fadd_rn(__fsub_rn(a.high, __fsub_rn(high, other)), __fsub_rn(b.high, other));
    return rp_pair_normal(high, rest + (a.low + b.low));
}

/* The product of two numbers of 2^-64, rounded down: the upper half of the product of integers, from halves of 32
 * bits. */
__device__ static inline uint64_t rp_fixed_product(uint64_t a, uint64_t b) {
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t first = ah * bl, second = al * bh;
    const uint64_t middle = (al * bl >> 32) + (uint32_t)first + (uint32_t)second;
    return ah * bh + (first >> 32) + (second >> 32) + (middle >> 32);
}

/* From and to a number of 2^-64, which holds no whole numbers. */
__device__ static inline FloatPair rp_pair_of_fixed(uint64_t v) {
    const float   high = (float)(int64_t)(v >> 1), unit = 1.0f / 9223372036854775808.0f;
    const int64_t rest = (int64_t)(v >> 1) - (int64_t)high;
    return rp_pair_normal(high * unit, (float)rest * unit);
}

__device__ static inline uint64_t rp_fixed_of(const FloatPair &a) {
    const float one = 18446744073709551616.0f;
    return (uint64_t)((int64_t)((a.high - rintf(a.high)) * one / 2.0f) * 2) + (uint64_t)(int64_t)(a.low * one);
}

/* cos and sin of t turns, t a number of 2^-64, with errors of half an ulp and 5e-9. Quarter turns are taken off first:
 *
 *     x = 2 pi (t - quarter / 4),  |x| <= pi / 4
 *     cos(x)   = 1 - x^2/2 + x^4/4! - ...       the first two terms with their rounding errors
 *     sin(x)   = x - x^3/3! + x^5/5! - ...      the first term as a pair */
__device__ static inline void rp_cos_sin(uint64_t t, float *cos_out, float *sin_out) {
    const unsigned  quarter = (unsigned)((t + (1ull << 61)) >> 62) & 3;
    const int64_t   part    = (int64_t)(t - ((uint64_t)quarter << 62));
    const float     high = (float)part, unit = 1.0f / 18446744073709551616.0f;
    const FloatPair two_pi = {6.28318530717958648f, -1.74845560e-7f},
                    x      = rp_pair_product({high * unit, (float)(part - (int64_t)high) * unit}, two_pi);
    const float x2 = __fmul_rn(x.high, x.high), x2_rest = fmaf(x.high, x.high, -x2) + 2.0f * x.high * x.low;
    const float c4   = fmaf(x2, fmaf(x2, fmaf(x2, -1.0f / 3628800, 1.0f / 40320), -1.0f / 720), 1.0f / 24);
    const float s3   = fmaf(x2, fmaf(x2, fmaf(x2, 1.0f / 362880, -1.0f / 5040), 1.0f / 120), -1.0f / 6);
    const float half = 0.5f * x2, one = __fsub_rn(1.0f, half), one_rest = __fsub_rn(__fsub_rn(1.0f, one), half);
    const float c     = one + (one_rest + fmaf(x2 * x2, c4, -0.5f * x2_rest));
    const float s     = x.high + fmaf(x.high * x2, s3, x.low);
    const float first = quarter % 2 != 0 ? s : c, second = quarter % 2 != 0 ? c : s;
    *cos_out = quarter == 1 || quarter == 2 ? -first : first; /* cos and sin change places, and signs */
    *sin_out = quarter >= 2 ? -second : second;
}

#endif
