/* gguf_file.h - the inside of a GgufFile. */
#ifndef MODEL_GGUF_FILE_H
#define MODEL_GGUF_FILE_H

#include "reprise/gguf.h"

struct GgufFile {
    char                *path;
    const unsigned char *data;
    size_t               bytes, data_at, alignment;
    bool                 mapped;
    uint32_t             version;
    GgufValue           *values;
    int64_t              n_values;
    GgufTensor          *tensors;
    int64_t              n_tensors;
    uint32_t *value_index, *tensor_index; /* open addressing by hash of the name: number + 1, or 0 */
    size_t    value_slots, tensor_slots;
};

/* Build the indices; RP_E_FORMAT for a name that comes twice. */
RP_NODISCARD RpStatus rp_gguf_index_values(GgufFile *f);
RP_NODISCARD RpStatus rp_gguf_index_tensors(GgufFile *f);

#endif
