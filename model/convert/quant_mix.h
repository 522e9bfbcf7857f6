/* quant_mix.h - quantisation mixes: the type that each tensor of a file gets. A mix such as Q4_K_M has a base
 * type and a better one for the tensors that lose most. */
#ifndef MODEL_CONVERT_QUANT_MIX_H
#define MODEL_CONVERT_QUANT_MIX_H

#include "reprise/gguf.h"

#include <stdbool.h>

typedef struct QuantMix {
    const char *name;
    RpDtype     base, better, output, others; /* others: matrices outside of the experts */
    uint32_t    file_type;
    int         low; /* 1 + its number in RP_LOW_MIXES, whose rules hold then; or 0 */
} QuantMix;

/* By name, in any case. RP_E_ARG for an unknown name; the error lists all. */
RP_NODISCARD RpStatus rp_quant_mix_find(const char *name, const QuantMix **out);

/* The mix of one type that was registered (reprise/extend.h): all matrices have it. It has no file_type. */
QuantMix rp_quant_mix_custom(RpDtype type);

/* The mix for a model with experts: MXFP4 is then the type of the experts alone. */
const QuantMix *rp_quant_mix_experts(const QuantMix *mix);

/* What the rules ask of a model. */
typedef struct QuantMixModel {
    int32_t n_layer, n_head, n_head_kv, n_expert; /* heads of the first layer */
    bool    tied;                                 /* the embedding serves as the output matrix too */
    bool    is_70b;                               /* 80 layers with grouped queries, of llama or qwen2 */
} QuantMixModel;

/* Parts of a model, by the name of a tensor. */
typedef enum RpMixPart {
    RP_MIX_OUTPUT,
    RP_MIX_EMBEDDING,
    RP_MIX_VALUE,
    RP_MIX_KEY,
    RP_MIX_QUERY,
    RP_MIX_ATTN_OUTPUT,
    RP_MIX_UP,
    RP_MIX_GATE,
    RP_MIX_DOWN,
    RP_MIX_OTHER,
} RpMixPart;

RpMixPart rp_mix_part(RpGgufString name);

/* The number in "blk.N."; 0 for other names. */
int32_t rp_mix_layer(RpGgufString name);

/* Vectors, norms, routers, biases and taps, which are not quantised. */
bool rp_mix_is_float(RpGgufString name, const int64_t ne[RP_MAX_DIMS]);

/* The type of tensor `name` with shape ne. `before`: the matrices of its part in lower layers, or in its layer with a
 * name that comes before. */
RpDtype rp_quant_mix_type(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, const int64_t ne[RP_MAX_DIMS],
                          int32_t before);

/* Whether a matrix is useless in this type without its importance, as in llama.cpp. */
bool rp_mix_needs_importance(RpDtype type, RpGgufString name);

/* Its number in general.file_type: llama.cpp's llama_ftype. RP_MIX_NO_FILE_TYPE: it has none. */
enum { RP_MIX_NO_FILE_TYPE = INT32_MAX };
uint32_t rp_quant_mix_file_type(const QuantMix *mix);

#endif
