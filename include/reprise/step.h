/* step.h - the step state: everything that changes from token to token when a device decodes by itself. It is data in a
 * tensor that kernels read and write, so that addresses and shapes stay fixed (I4).
 *
 *     words: RpStepState (RP_STEP_WORDS i32), then recent[repeat_last_n] i32, a ring of the latest tokens
 *
 * The op `sample` writes the next token into it; the graph of the following step reads that token.
 *
 *   memcpy(&step, words, sizeof step);
 *   step.token = first;  step.pos = n_past;
 */
#ifndef REPRISE_STEP_H
#define REPRISE_STEP_H

#include <stdint.h>

typedef struct RpStepState {
    int32_t token; /* the token sampled last, which the next step runs; -1: every logit was NaN or -inf */
    int32_t pos;   /* its position in the context; op sample adds one */
    /* As in RpSamplerParams (sampler.h). */
    float    temperature;
    int32_t  top_k;
    float    top_p, min_p, repeat_penalty;
    int32_t  repeat_last_n;
    uint32_t seed_low, seed_high;
    uint32_t drawn_low, drawn_high; /* random numbers used so far: the counter of the next one */
    int32_t  n_recent, next_recent; /* tokens in the ring, and the slot that the next one overwrites */
} RpStepState;

/* Further inputs of the op `sample`, in another tensor: this struct, then (n_vocab + 31) / 32 words of mask bits. If
 * all is zero, nothing is applied. */
typedef struct RpSampleExtra {
    int32_t masked;            /* not 0: only tokens whose bit is 1 are sampled (rp_sampler_set_mask) */
    float   frequency_penalty; /* as in RpSamplerParams, over the ring of recent tokens */
    float   presence_penalty;
    int32_t unused; /* 0 */
} RpSampleExtra;

enum { RP_SAMPLE_EXTRA_WORDS = sizeof(RpSampleExtra) / sizeof(int32_t) };
enum { RP_REPLY_MAX_END = 32 }; /* most end tokens that a reply can have */
enum { RP_STEP_WORDS = sizeof(RpStepState) / sizeof(int32_t) };

#endif
