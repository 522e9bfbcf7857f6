/* preset.h - the shapes that rp_synth knows. */
#ifndef MODEL_PRESET_H
#define MODEL_PRESET_H

#include "model/config.h"

typedef struct Preset {
    const char *name, *arch, *help;
    int32_t     n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    int32_t     n_expert, n_used, n_ff_expert;
    float       rope_base, ntk_alpha; /* ntk_alpha: 0, or the base grows by alpha^(d/(d-2)) */
    float       yarn_factor;          /* or 0 */
    int32_t     yarn_ctx, window;
    bool        tied, biases;
} Preset;

const Preset *rp_preset_find(const char *name); /* or NULL */

/* The base of the rotation with the stretch by alpha in it. */
float rp_preset_rope_base(const Preset *p);

#endif
