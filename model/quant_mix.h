/* mix.h - which type each tensor of a file gets. */
#ifndef MODEL_QUANT_MIX_H
#define MODEL_QUANT_MIX_H

#include "reprise/gguf.h"

typedef struct QuantMix QuantMix;

/* RP_E_ARG for a name that is none; it names those there are. */
RP_NODISCARD RpStatus rp_mix_find(const char *name, const QuantMix **out);

/* `tied`: the embedding is the output matrix too. */
RpDtype rp_mix_type(const QuantMix *mix, GgufString name, const int64_t ne[RP_MAX_DIMS], int32_t n_layer,
                    bool tied);

/* Its number in general.file_type, as llama.cpp counts. */
uint32_t rp_mix_file_type(const QuantMix *mix);

#endif
