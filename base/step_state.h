/* step_state.h - reads and writes the step state (reprise/step.h), the same on the host and on a device. */
#ifndef BASE_STEP_STATE_H
#define BASE_STEP_STATE_H

#include "reprise/status.h"
#include "reprise/step.h"

#include "base/philox.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* RP_E_ARG, with the parameter, for one out of range (sampler.h). */
RP_NODISCARD RpStatus rp_sampling_check(float temperature, int32_t top_k, float top_p, float min_p);

/* RP_E_ARG, with the member, for a state that kernels cannot use: sampling parameters out of range (sampler.h), a ring
 * of more than `room` tokens, or recent tokens outside of the vocabulary. `token` and `pos` are not checked. */
RP_NODISCARD RpStatus rp_step_check(const RpStepState *s, const int32_t *recent, int64_t room, int64_t n_vocab);

#ifdef __cplusplus
}
#endif

/* Seed and counter of the next random number, as rp_philox_uniform takes them. */
RP_ANYWHERE uint64_t rp_step_seed(const RpStepState *s) { return (uint64_t)s->seed_high << 32 | s->seed_low; }
RP_ANYWHERE uint64_t rp_step_drawn(const RpStepState *s) { return (uint64_t)s->drawn_high << 32 | s->drawn_low; }

/* Puts the token into the ring, over the oldest one if it is full; 0 <= next_recent < repeat_last_n. */
RP_ANYWHERE void rp_step_accept(RpStepState *s, int32_t *recent, int32_t token) {
    if (s->repeat_last_n == 0) return;
    recent[s->next_recent] = token;
    s->next_recent         = (s->next_recent + 1) % s->repeat_last_n;
    if (s->n_recent < s->repeat_last_n) s->n_recent++;
}

/* As llama.cpp has it: the repetition penalty divides positive logits and multiplies others; then count * frequency +
 * presence is subtracted. By fmaf, so that no compiler contracts it in a way of its own. */
RP_ANYWHERE float rp_step_penalise(float logit, float repeat, float frequency, float presence, int32_t count) {
    const float less = fmaf((float)count, frequency, presence);
    return logit > 0.0f ? logit / repeat - less : fmaf(logit, repeat, -less);
}

#endif
