/* rope.cuh - one pair of a row turned by theta_i(pos). */
#ifndef KERNELS_ROPE_CUH
#define KERNELS_ROPE_CUH

#include "kernels/device.cuh"

#include "reprise/yarn.h"

struct RopeShape {
    RopeParams p;
    YarnRamp   ramp;
    double     log_base;
};

static inline RopeShape rp_rope_shape(const RopeParams &p) {
    return {p, rp_yarn_ramp(&p), log((double)p.freq_base)};
}

/* in and out may be the same; a position before 0 turns by 0. */
__device__ static inline void rp_turn_pair(const RopeShape &s, int32_t pos, const float *factors, int pair,
                                           const float *in, float *out) {
    const float  f = factors != nullptr ? factors[pair] : 1.0f;
    const double t = rp_yarn_angle(
        &s.p, &s.ramp, pair, (pos < 0 ? 0 : pos) * exp(-2.0 * pair / s.p.n_dims * s.log_base) / (double)f);
    const float c = (float)(cos(t) * s.ramp.magnitude), sn = (float)(sin(t) * s.ramp.magnitude);
    const int   first = s.p.mode == RP_ROPE_NORM ? 2 * pair : pair;
    const int   other = s.p.mode == RP_ROPE_NORM ? first + 1 : first + s.p.n_dims / 2;
    const float a = in[first], b = in[other];
    out[first] = a * c - b * sn;
    out[other] = a * sn + b * c;
}

#endif
