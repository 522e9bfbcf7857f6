/* step.h - what changes from token to token when a device decodes by itself: data that kernels read and write (I4).
 *
 * A state of i32 words: a StepState, then a ring of the latest tokens, `repeat_last_n` of them. The op `sample` draws the
 * next token into it; the graph of the following step begins with that token.
 */
#ifndef REPRISE_STEP_H
#define REPRISE_STEP_H

#include "reprise/philox.h"

typedef struct StepState {
    int32_t  token; /* the latest drawn, the next to be run; -1: nothing could be drawn */
    int32_t  pos;   /* where it stands; sample adds one */
    /* The sampler: as SamplerParams. */
    float    temperature;
    int32_t  top_k;
    float    top_p, min_p, repeat_penalty;
    int32_t  repeat_last_n;
    uint32_t seed_low, seed_high;
    uint32_t drawn_low, drawn_high; /* counter of the next random number */
    int32_t  n_recent, next_recent; /* of the ring */
} StepState;

enum { RP_REPLY_MAX_END = 32 }; /* tokens that end a reply */
enum { RP_STEP_WORDS = sizeof(StepState) / sizeof(int32_t) };

RP_ANYWHERE uint64_t rp_step_seed(const StepState *s) { return (uint64_t)s->seed_high << 32 | s->seed_low; }
RP_ANYWHERE uint64_t rp_step_drawn(const StepState *s) { return (uint64_t)s->drawn_high << 32 | s->drawn_low; }

/* The ring takes the token. */
RP_ANYWHERE void rp_step_accept(StepState *s, int32_t *recent, int32_t token) {
    if (s->repeat_last_n == 0) return;
    recent[s->next_recent] = token;
    s->next_recent         = (s->next_recent + 1) % s->repeat_last_n;
    if (s->n_recent < s->repeat_last_n) s->n_recent++;
}

#endif
