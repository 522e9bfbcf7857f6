/* shards.h - the files of weights of a directory: model.safetensors, or those that model.safetensors.index.json
 * names; and those of linear layers in folders of their own. */
#ifndef MODEL_HF_SHARDS_H
#define MODEL_HF_SHARDS_H

#include "model/hf/directory.h"
#include "model/hf/safetensors.h"

typedef struct HfShards {
    Safetensors       *files;
    size_t             n;
    const SafeTensor **tensors; /* [n_tensors] of all files, sorted by name */
    size_t             n_tensors;
} HfShards;

/* RP_E_IO for a missing file, RP_E_FORMAT for a name that leads elsewhere, for a tensor in two files, and for one
 * that the index names and its file lacks. With `copy` the files are read into memory. linear.weight and linear.bias
 * of the first two `folders` become dense_2.* and dense_3.*; RP_E_UNSUPPORTED for other tensors there. The caller
 * frees *out with rp_hf_shards_free, also after a failure. */
RP_NODISCARD RpStatus rp_hf_shards_open(HfDirectory *d, char (*folders)[HF_FOLDER_BYTES], int n_folders, bool copy,
                                        HfShards *out);
void                  rp_hf_shards_free(HfShards *s);

/* The tensor of that name, or NULL. */
const SafeTensor *rp_hf_shards_find(const HfShards *s, RpGgufString name);

#endif
