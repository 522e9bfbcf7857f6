/* sampler.h - what a device takes from a sampler besides its state. */
#ifndef MODEL_SAMPLER_SAMPLER_H
#define MODEL_SAMPLER_SAMPLER_H

#include "reprise/sampler.h"
#include "reprise/step.h"

/* Fills *out and returns the bits of the mask, which are borrowed; NULL: every token is allowed. */
const uint32_t *rp_sampler_extra(const RpSampler *s, RpSampleExtra *out);

#endif
