/* quant_mix.h - quantisation mixes: the type that each tensor of a file gets. A mix such as Q4_K_M has a base
 * type, and finer ones for the tensors that lose most. */
#ifndef MODEL_CONVERT_QUANT_MIX_H
#define MODEL_CONVERT_QUANT_MIX_H

#include "reprise/gguf.h"

#include <stdbool.h>

typedef struct QuantMix QuantMix;

/* By name, in any case. RP_E_ARG for an unknown name; the error lists all. */
RP_NODISCARD RpStatus rp_quant_mix_find(const char *name, const QuantMix **out);

/* Its number in general.file_type: llama.cpp's llama_ftype. */
uint32_t rp_quant_mix_file_type(const QuantMix *mix);
RpDtype  rp_quant_mix_base(const QuantMix *mix);

/* The properties of the model and of the conversion on which the type of a matrix depends. */
typedef struct QuantMixModel {
    int32_t n_layer, n_head, n_head_kv, n_expert; /* heads of the first layer */
    int32_t n_value;                              /* matrices of the part RP_MIX_VALUE */
    bool    tied;                                 /* the embedding serves as the output matrix too */
    bool    is_70b;                               /* 80 layers with grouped queries, of llama or qwen2 */
    bool    has_importance;                       /* an importance matrix is given */
    bool    pure;                                 /* all matrices have the base type */
} QuantMixModel;

/* Parts of a model, by the name of a tensor. */
typedef enum RpMixPart {
    RP_MIX_OUTPUT,
    RP_MIX_EMBEDDING,
    RP_MIX_VALUE, /* also joined with queries and keys, and keys with values from a latent */
    RP_MIX_KEY,
    RP_MIX_QUERY,
    RP_MIX_ATTN_OUTPUT,
    RP_MIX_UP,
    RP_MIX_GATE,
    RP_MIX_DOWN,
    RP_MIX_OTHER,
    RP_MIX_PARTS,
} RpMixPart;

RpMixPart rp_mix_part(RpGgufString name);

/* The number in "blk.N."; 0 for other names. */
int32_t rp_mix_layer(RpGgufString name);

/* Vectors, norms, routers, biases and taps, which are not quantised. */
bool rp_mix_is_float(RpGgufString name, const int64_t ne[RP_MAX_DIMS]);

/* A large matrix that llama.cpp does not quantise: per_layer_model_proj of Gemma. */
bool rp_mix_is_kept(RpGgufString name);

/* The type of tensor `name` with shape ne. `before`: the matrices of its part in lower layers, or in its layer with a
 * name that comes before. */
RpDtype rp_quant_mix_type(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, const int64_t ne[RP_MAX_DIMS],
                          int32_t before);

/* The same for one type, registered ones too, that all matrices have. */
RpDtype rp_pure_type(RpDtype type, RpGgufString name, const int64_t ne[RP_MAX_DIMS]);

/* `type`, or for rows of n elements that are not whole blocks of it, one in blocks of 32 or f16. */
RpDtype rp_mix_for_rows(RpDtype type, int64_t n);

/* Whether a matrix is useless in this type without its importance, as in llama.cpp. `mix` may be NULL. */
bool rp_mix_needs_importance(const QuantMix *mix, RpDtype type, RpGgufString name);

#endif
