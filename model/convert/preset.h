/* preset.h - the model shapes that rp_synth can write. */
#ifndef MODEL_CONVERT_PRESET_H
#define MODEL_CONVERT_PRESET_H

#include "model/config.h"

typedef struct Preset {
    const char *name, *arch, *help;
    int32_t     n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    int32_t     n_expert, n_used, n_ff_expert;
    float       rope_base, ntk_alpha; /* ntk_alpha: 0, or rope_base is multiplied by alpha^(d/(d-2)) */
    float       yarn_factor;          /* 0: no YaRN */
    int32_t     yarn_ctx, window;     /* YaRN: original context; window: of local layers, 0: none */
    bool        tied, biases;         /* tied: no output matrix; biases: the optional ones are written */
} Preset;

const Preset *rp_preset_find(const char *name); /* or NULL */

/* rope_base after NTK-aware scaling by ntk_alpha. */
float rp_preset_rope_base(const Preset *p);

#endif
