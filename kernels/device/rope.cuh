/* rope.cuh - rotates one pair of a row by theta_i(pos) = pos * freq_base^(-2i/n_dims) / factor_i, interpolated by
 * YaRN (base/yarn.h). An angle of 10^9 radians must be as good as in double, and doubles are slow on most devices. So
 * angles are turns, theta / (2 pi), in 64 bits behind the point: the product with pos drops whole turns by itself. */
#ifndef KERNELS_DEVICE_ROPE_CUH
#define KERNELS_DEVICE_ROPE_CUH

#include "kernels/device/float_pair.cuh"

#include "base/limits.h"
#include "base/yarn.h"

enum { RP_ROPE_BITS = 9 }; /* of the number of a pair */
static_assert((int)RP_ROPE_MAX_DIMS / 2 <= 1 << RP_ROPE_BITS, "every pair has its powers");

/* Computed once per launch on the host. Turns and powers are numbers of 2^-64. */
struct RopeShape {
    RpRopeParams p;
    YarnRamp     ramp;
    uint64_t     turn;                 /* 1 / (2 pi) */
    uint64_t     powers[RP_ROPE_BITS]; /* freq_base^(-2 * 2^j / n_dims) */
    FloatPair    slope, rest;          /* of YaRN: 1 / (high - low); sign(freq_scale) - freq_scale */
    float        low, magnitude;       /* of YaRN */
    bool         rising;               /* freq_base <= 1: powers are not below 1 */
};

__host__ __device__ static inline uint64_t rp_rope_fixed(double v) { return (uint64_t)(v * 18446744073709551616.0); }

static inline RopeShape rp_rope_shape(const RpRopeParams &p) {
    RopeShape s    = {};
    s.p            = p;
    s.ramp         = rp_yarn_ramp(&p);
    s.turn         = 2935890503282001226u; /* 2^64 / (2 pi), rounded */
    s.rising       = p.freq_base <= 1.0f;
    s.slope        = rp_pair_of(1.0 / fmax(0.001, s.ramp.high - s.ramp.low));
    s.rest         = rp_pair_of((p.freq_scale < 0.0f ? -1.0 : 1.0) - (double)p.freq_scale);
    s.low          = (float)s.ramp.low;
    s.magnitude    = (float)s.ramp.magnitude;
    const double l = log((double)p.freq_base);
    for (int j = 0; j < RP_ROPE_BITS && !s.rising; j++)
        s.powers[j] = rp_rope_fixed(exp(-2.0 * (1 << j) / p.n_dims * l));
    return s;
}

/* freq_scale * (1 - mix) + sign * mix, by which YaRN multiplies the angle of a pair: freq_scale + mix (sign -
 * freq_scale), sign that of freq_scale. */
__device__ static inline FloatPair rp_rope_stretch(const RopeShape &s, int pair) {
    const FloatPair scale = {s.p.freq_scale, 0.0f};
    if (s.p.ext_factor == 0.0f) return scale;
    FloatPair ramp = rp_pair_product(s.slope, {(float)pair - s.low, 0.0f});
    if (ramp.high <= 0.0f) ramp = {0.0f, 0.0f};
    if (ramp.high >= 1.0f) ramp = {1.0f, 0.0f};
    const FloatPair falling = rp_pair_add({1.0f, 0.0f}, {-ramp.high, -ramp.low});
    const FloatPair mix     = rp_pair_product(falling, {s.p.ext_factor, 0.0f});
    return rp_pair_add(scale, rp_pair_product(mix, s.rest));
}

/* Turns of a pair at position 1, in doubles, for a freq_base that no model has, or 0 (RpRopeParams). Not inlined, so
 * that it takes no registers from the common path. */
__device__ static RP_NOINLINE uint64_t rp_rope_slow_turns(const RopeShape &s, float factor, int pair) {
    const double freq  = s.p.freq_base == 0.0f
                             ? (double)factor
                             : exp(-2.0 * pair / s.p.n_dims * log((double)s.p.freq_base)) / (double)factor;
    const double turns = rp_yarn_angle(&s.p, &s.ramp, pair, freq) / (2.0 * 3.14159265358979323846);
    return rp_rope_fixed(turns - floor(turns));
}

/* Turns of a pair at position 1. freq_base^(-2 pair / n_dims) is the product of the powers of the bits of `pair`. */
__device__ static inline uint64_t rp_rope_turns(const RopeShape &s, float factor, int pair) {
    uint64_t t = s.turn;
    if (s.rising) return rp_rope_slow_turns(s, factor, pair);
#ifdef RP_CONSTANT_ARGUMENTS /* nvrtc.cuh: powers[j] is a constant only for a constant j */
#pragma unroll
    for (int j = 0; j < RP_ROPE_BITS; j++)
#else
    for (int j = 0; pair >> j > 0; j++)
#endif
        if ((pair >> j & 1) != 0) t = rp_fixed_product(t, s.powers[j]);
    const bool stretched = s.p.ext_factor != 0.0f || s.p.freq_scale != 1.0f;
    if (!stretched && factor == 1.0f) return t;
    FloatPair turns = rp_pair_of_fixed(t);
    if (factor != 1.0f) turns = rp_pair_quotient(turns, factor);
    if (stretched) turns = rp_pair_product(turns, rp_rope_stretch(s, pair));
    return rp_fixed_of(turns);
}

/* The cosine and sine of a pair's angle, times the magnitude of YaRN. The position -1 of a padding token counts as
 * 0. */
struct Rotation {
    float c, s;
};

__device__ static inline Rotation rp_rotation(const RopeShape &s, int32_t pos, const float *factors, int pair) {
    const uint64_t turns = rp_rope_turns(s, factors != nullptr ? factors[pair] : 1.0f, pair);
    Rotation       r;
    rp_cos_sin((uint64_t)(pos < 0 ? 0 : pos) * turns, &r.c, &r.s);
    r.c *= s.magnitude, r.s *= s.magnitude;
    return r;
}

__device__ static inline void rp_rotate(const Rotation &r, float a, float b, float *first, float *other) {
    *first = a * r.c - b * r.s;
    *other = a * r.s + b * r.c;
}

/* Rotates a pair of a row. `in` and `out` may be the same row (I6). */
__device__ static inline void rp_rotate_row(const RopeShape &s, const Rotation &r, int pair, const float *in,
                                            float *out) {
    const int first = s.p.mode == RP_ROPE_NORM ? 2 * pair : pair;
    const int other = s.p.mode == RP_ROPE_NORM ? first + 1 : first + s.p.n_dims / 2;
    rp_rotate(r, in[first], in[other], out + first, out + other);
}

#endif
