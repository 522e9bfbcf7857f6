/* yarn.h - the angles of YaRN (Peng et al. 2023, arXiv:2309.00071, section 3), the same on the host and on a device.
 *
 * Interpolated and extrapolated angles are mixed by a ramp over the dimensions whose wavelength lies between
 * n_ctx_orig / beta_fast and n_ctx_orig / beta_slow; magnitudes are multiplied by 1 + 0.1 ln(1/freq_scale).
 */
#ifndef REPRISE_YARN_H
#define REPRISE_YARN_H

#include "reprise/ops.h"
#include "reprise/philox.h"

#include <math.h>

typedef struct YarnRamp {
    double low, high; /* pairs between which it rises */
    double magnitude; /* of the rotation */
} YarnRamp;

/* The dimension whose angle makes `turns` turns over the context of the training run. */
static inline double rp_yarn_dim(const RopeParams *p, double turns) {
    return p->n_dims * log(p->n_ctx_orig / (turns * 2.0 * 3.14159265358979323846)) /
           (2.0 * log((double)p->freq_base));
}

static inline YarnRamp rp_yarn_ramp(const RopeParams *p) {
    YarnRamp r = {0.0, 0.0, (double)p->attn_factor};
    if (p->ext_factor == 0.0f) return r;
    r.low  = fmax(0.0, floor(rp_yarn_dim(p, (double)p->beta_fast)));
    r.high = fmin(p->n_dims - 1.0, ceil(rp_yarn_dim(p, (double)p->beta_slow)));
    r.magnitude *= 1.0 + 0.1 * log(1.0 / (double)p->freq_scale);
    return r;
}

/* The angle of a pair from its extrapolated one, pos * freq_base^(-2 pair / n_dims) / factor. */
RP_ANYWHERE double rp_yarn_angle(const RopeParams *p, const YarnRamp *r, int pair, double extrapolated) {
    const double theta = extrapolated * (double)p->freq_scale;
    if (p->ext_factor == 0.0f) return theta;
    const double ramp = 1.0 - fmin(1.0, fmax(0.0, (pair - r->low) / fmax(0.001, r->high - r->low)));
    const double mix  = ramp * (double)p->ext_factor;
    return theta * (1.0 - mix) + extrapolated * mix;
}

#endif
