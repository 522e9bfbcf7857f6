/* step.h - the step state: everything that changes from token to token when a device decodes by itself. It is data in a
 * tensor that kernels read and write, so that addresses and shapes stay fixed (I4).
 *
 *     words: StepState (RP_STEP_WORDS i32), then recent[repeat_last_n] i32, a ring of the latest tokens
 *
 * The op `sample` writes the next token into it; the graph of the following step reads that token.
 *
 *   memcpy(&step, words, sizeof step);
 *   step.token = first;  step.pos = n_past;
 */
#ifndef REPRISE_STEP_H
#define REPRISE_STEP_H

#include "reprise/philox.h"

typedef struct StepState {
    int32_t  token; /* the token sampled last, which the next step runs; -1: every logit was NaN or -inf */
    int32_t  pos;   /* its position in the context; op sample adds one */
    /* As in SamplerParams (sampler.h). */
    float    temperature;
    int32_t  top_k;
    float    top_p, min_p, repeat_penalty;
    int32_t  repeat_last_n;
    uint32_t seed_low, seed_high;
    uint32_t drawn_low, drawn_high; /* random numbers used so far: the counter of the next one */
    int32_t  n_recent, next_recent; /* tokens in the ring, and the slot that the next one overwrites */
} StepState;

enum { RP_REPLY_MAX_END = 32 }; /* most end tokens that a reply can have */
enum { RP_STEP_WORDS = sizeof(StepState) / sizeof(int32_t) };

/* Seed and counter of the next random number, as rp_philox_uniform takes them. */
RP_ANYWHERE uint64_t rp_step_seed(const StepState *s) { return (uint64_t)s->seed_high << 32 | s->seed_low; }
RP_ANYWHERE uint64_t rp_step_drawn(const StepState *s) { return (uint64_t)s->drawn_high << 32 | s->drawn_low; }

/* Puts the token into the ring, over the oldest one if it is full; 0 <= next_recent < repeat_last_n. */
RP_ANYWHERE void rp_step_accept(StepState *s, int32_t *recent, int32_t token) {
    if (s->repeat_last_n == 0) return;
    recent[s->next_recent] = token;
    s->next_recent         = (s->next_recent + 1) % s->repeat_last_n;
    if (s->n_recent < s->repeat_last_n) s->n_recent++;
}

#endif
