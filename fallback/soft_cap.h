/* soft_cap.h - cap * tanh(x / cap), for the ops soft_cap and attention. */
#ifndef FALLBACK_SOFT_CAP_H
#define FALLBACK_SOFT_CAP_H

#include "fallback/simd/float.h"

/* tanh(u) = (1 - e) / (1 + e), e = exp(-2u), of |u|: no overflow, and an odd function bit for bit. */
RP_BODY float rp_soft_cap(float x, float cap) {
    const float e = rp_expf(-2.0f * fabsf(x / cap));
    return copysignf(cap * ((1.0f - e) / (1.0f + e)), x);
}

#endif
