/* preset.h - the model shapes that rp_synth and rp_train_init can write. */
#ifndef MODEL_CONVERT_PRESET_H
#define MODEL_CONVERT_PRESET_H

#include "model/config.h"
#include "model/gguf/gguf_write.h"

/* A key "<arch>.<key>" of the file: an array `list` of `n` integers; or with `layers` an array of one integer a layer,
 * `u` where layers[layer % strlen(layers)] is 'x' and 0 elsewhere, or with `flag` of booleans; else true if `flag` is
 * set, the float `f` if it is not 0, or the integer `u`. */
typedef struct PresetKey {
    const char    *key, *layers;
    const int32_t *list;
    uint32_t       n, u;
    float          f;
    bool           flag;
} PresetKey;

typedef struct Preset {
    const char      *name, *arch, *help;
    int32_t          n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    int32_t          n_expert, n_used, n_ff_expert;
    int32_t          n_mtp;                /* layers that predict further tokens, behind the n_layer */
    float            rope_base, ntk_alpha; /* ntk_alpha: 0, or rope_base is multiplied by alpha^(d/(d-2)) */
    float            yarn_factor;          /* 0: no YaRN */
    float            eps;                  /* of RMS norms; 0: 1e-5 */
    int32_t          yarn_ctx, window;     /* YaRN: original context; window: of local layers, 0: none */
    bool             tied, biases;         /* tied: no output matrix; biases: the optional ones are written */
    const PresetKey *keys; /* further keys, or others in the place of those above; the last has no name */
} Preset;

/* RP_E_ARG lists the presets. */
RP_NODISCARD RpStatus rp_preset_find(const char *name, const Preset **out);

/* rope_base after NTK-aware scaling by ntk_alpha. */
float rp_preset_rope_base(const Preset *p);

/* The configuration that a model of this preset has. It refers to *file, metadata in memory: the caller closes it. */
RP_NODISCARD RpStatus rp_preset_config(const Preset *p, RpGgufFile **file, ModelConfig *out);

/* Architecture, name and shape. */
void rp_preset_put_values(GgufWriter *w, const Preset *p, const char *name, uint32_t file_type);

/* A SentencePiece tokenizer of n tokens, one for each byte; n >= 259. */
void rp_preset_put_byte_tokenizer(GgufWriter *w, int32_t n);

#endif
