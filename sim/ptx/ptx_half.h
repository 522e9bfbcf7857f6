// ptx_half.h - f16 and bf16 from and to double, rounded once to nearest even.
#ifndef TESTS_PTX_PTX_HALF_H
#define TESTS_PTX_PTX_HALF_H
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ptx {
// A float of 16 bits with FRACTION fraction bits: f16 has 10 and exponent bias 15, bf16 7 and 127.
template <int FRACTION, int BIAS> static inline uint16_t small_of(double v) {
    uint64_t u;
    memcpy(&u, &v, 8);
    const uint16_t sign = (uint16_t)(u >> 48 & 0x8000), infinity = (uint16_t)((2 * BIAS + 1) << FRACTION);
    if (v != v) return 0x7fff;
    const double a = std::fabs(v);
    if (a == 0) return sign;
    int exponent;
    std::frexp(a, &exponent); // a = m * 2^exponent, 0.5 <= m < 1
    int e = exponent - 1;
    if (e < 1 - BIAS) e = 1 - BIAS;                               // subnormal: a multiple of 2^(1 - BIAS - FRACTION)
    const double q = std::nearbyint(std::ldexp(a, FRACTION - e)); // in units of the last place
    if (e > BIAS || std::ldexp(q, e - FRACTION) >= std::ldexp(1.0, BIAS + 1)) return (uint16_t)(sign | infinity);
    const uint32_t n = (uint32_t)q; // a carry out of the fraction raises the exponent
    if (n < 1u << FRACTION) return (uint16_t)(sign | n);
    return (uint16_t)(sign | (((uint32_t)(e + BIAS - 1) << FRACTION) + n));
}
template <int FRACTION, int BIAS> static inline float small_to(uint16_t h) {
    const int    e = (h & 0x7fff) >> FRACTION, f = h & ((1 << FRACTION) - 1);
    const double m = e == 2 * BIAS + 1 ? (f ? NAN : INFINITY)
                     : e == 0          ? std::ldexp((double)f, 1 - BIAS - FRACTION)
                                       : std::ldexp((double)(f + (1 << FRACTION)), e - BIAS - FRACTION);
    return (float)(h & 0x8000 ? -m : m);
}
static inline uint16_t half_of(double v) { return small_of<10, 15>(v); }
static inline uint16_t bfloat_of(double v) { return small_of<7, 127>(v); }
static inline float    half_to(uint16_t h) { return small_to<10, 15>(h); }
static inline float    bfloat_to(uint16_t h) {
       const uint32_t u = (uint32_t)h << 16;
       float          f;
       memcpy(&f, &u, 4);
       return f;
}
} // namespace ptx
#endif
