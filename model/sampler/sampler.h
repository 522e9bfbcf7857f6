/* sampler.h - what a device takes from a sampler besides its state. */
#ifndef MODEL_SAMPLER_SAMPLER_H
#define MODEL_SAMPLER_SAMPLER_H

#include "reprise/sampler.h"
#include "reprise/step.h"

/* Fills *out and returns the bits of the mask, which are borrowed; NULL: every token is allowed. */
const uint32_t *rp_sampler_extra(const RpSampler *s, RpSampleExtra *out);

/* Accepts a token of a reply that was not drawn and tells the observer. `logits` of its place, or NULL. */
void rp_sampler_force(RpSampler *s, const float *logits, int32_t token);

/* The sampler has accepted the last token of a reply, at position `pos` of the text. No context has it yet. Forgotten
 * once the sampler accepts another token or is reset. */
void rp_sampler_end_reply(RpSampler *s, size_t pos, int32_t token);

/* That token, if its position is `pos`; else -1. */
int32_t rp_sampler_reply_end(const RpSampler *s, size_t pos);

/* It has accepted no token since it was made or reset. */
bool rp_sampler_is_new(const RpSampler *s);

bool rp_sampler_is_observed(const RpSampler *s);

#endif
