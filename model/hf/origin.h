/* origin.h - errors of models in directories name keys and tensors of GGUF. This adds the names of Hugging Face. */
#ifndef MODEL_HF_ORIGIN_H
#define MODEL_HF_ORIGIN_H

#include "reprise/gguf.h"

/* Returns `st`. If f is a directory, the first key or tensor of its last error gets the name that it has there:
 * "... llama.block_count is 0, must be from 1 to 4096 (num_hidden_layers in config.json)". */
RP_NODISCARD RpStatus rp_hf_name_origin(const RpGgufFile *f, RpStatus st);

#endif
