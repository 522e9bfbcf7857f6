/* quant_mix.h - quantisation mixes: the type that each tensor of a file gets. A mix such as Q4_K_M has a base
 * type and a better one for the tensors that lose most. */
#ifndef MODEL_CONVERT_QUANT_MIX_H
#define MODEL_CONVERT_QUANT_MIX_H

#include "reprise/gguf.h"

typedef struct QuantMix QuantMix;

/* By name, in any case. RP_E_ARG for an unknown name; the error lists all. */
RP_NODISCARD RpStatus rp_quant_mix_find(const char *name, const QuantMix **out);

/* The mix for a model with experts: MXFP4 is then the type of the experts alone. */
const QuantMix *rp_quant_mix_experts(const QuantMix *mix);

/* The type of tensor `name` with shape ne. `tied`: the embedding serves as the output matrix too. */
RpDtype rp_quant_mix_type(const QuantMix *mix, RpGgufString name, const int64_t ne[RP_MAX_DIMS], int32_t n_layer,
                          bool tied);

/* Its number in general.file_type: llama.cpp's llama_ftype. */
uint32_t rp_quant_mix_file_type(const QuantMix *mix);

#endif
