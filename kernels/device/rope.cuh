/* rope.cuh - rotates one pair of a row by theta_i(pos) = pos * freq_base^(-2i/n_dims) / factor_i, interpolated by
 * YaRN (reprise/yarn.h). */
#ifndef KERNELS_DEVICE_ROPE_CUH
#define KERNELS_DEVICE_ROPE_CUH

#include "kernels/device/device.cuh"

#include "base/yarn.h"

/* Computed once per launch on the host. */
struct RopeShape {
    RpRopeParams p;
    YarnRamp     ramp;
    double       log_base; /* ln(freq_base): a power becomes one exp */
};

static inline RopeShape rp_rope_shape(const RpRopeParams &p) {
    return {p, rp_yarn_ramp(&p), log((double)p.freq_base)};
}

/* `in` and `out` may be the same row (I6). The position -1 of a padding token counts as 0. */
__device__ static inline void rp_rotate_pair(const RopeShape &s, int32_t pos, const float *factors, int pair,
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
