/* yarn.h - the rotation angles of YaRN (Peng et al. 2023, arXiv:2309.00071, section 3), the same on the host and on a
 * device. It extends the context of a model by 1/freq_scale without disturbing pairs that rotate fast.
 *
 *     extrapolated = pos * freq_base^(-2 pair / n_dims) / factor       the angle of the original model
 *     interpolated = freq_scale * extrapolated
 *     angle        = (1 - mix) * interpolated + mix * extrapolated
 *     mix          = ext_factor * (1 - clamp((pair - low) / (high - low), 0, 1))
 *
 * `low` is the pair (rounded down) that makes beta_fast turns over n_ctx_orig positions, `high` the pair (rounded up)
 * that makes beta_slow turns: faster pairs keep their angle, slower ones are interpolated. Rotated pairs are multiplied
 * by attn_factor * (1 + 0.1 ln(1/|freq_scale|)). A negative freq_scale turns every pair by the negative angle of its
 * magnitude, with the same factor: the transposed rotation, which the gradient needs.
 *
 *   const YarnRamp ramp = rp_yarn_ramp(&params);
 *   double theta = rp_yarn_angle(&params, &ramp, pair, extrapolated);
 *
 * Without YaRN (ext_factor 0) the angle is the interpolated one and the factor is attn_factor.
 */
#ifndef BASE_YARN_H
#define BASE_YARN_H

#include "base/philox.h"
#include "reprise/ops.h"

#include <math.h>

typedef struct YarnRamp {
    double low, high; /* pairs between which mix falls from ext_factor to 0 */
    double magnitude; /* factor of the rotated pair */
} YarnRamp;

/* The pair, as a real number, that makes `turns` turns over n_ctx_orig positions: the solution of
 * n_ctx_orig * freq_base^(-2 pair / n_dims) = 2 pi turns. */
static inline double rp_yarn_dim(const RpRopeParams *p, double turns) {
    return p->n_dims * log(p->n_ctx_orig / (turns * 2.0 * 3.14159265358979323846)) / (2.0 * log((double)p->freq_base));
}

static inline YarnRamp rp_yarn_ramp(const RpRopeParams *p) {
    YarnRamp r = {0.0, 0.0, (double)p->attn_factor};
    if (p->ext_factor == 0.0f) return r;
    r.low  = fmax(0.0, floor(rp_yarn_dim(p, (double)p->beta_fast)));
    r.high = fmin(p->n_dims - 1.0, ceil(rp_yarn_dim(p, (double)p->beta_slow)));
    r.magnitude *= 1.0 + 0.1 * log(1.0 / fabs((double)p->freq_scale));
    return r;
}

/* In radians, from the extrapolated angle of the pair. */
RP_ANYWHERE double rp_yarn_angle(const RpRopeParams *p, const YarnRamp *r, int pair, double extrapolated) {
    const double theta = extrapolated * (double)p->freq_scale;
    if (p->ext_factor == 0.0f) return theta;
    const double ramp = 1.0 - fmin(1.0, fmax(0.0, (pair - r->low) / fmax(0.001, r->high - r->low)));
    const double mix  = ramp * (double)p->ext_factor;
    return theta * (1.0 - mix) + (p->freq_scale < 0.0f ? -extrapolated : extrapolated) * mix;
}

#endif
