/* gguf_file.h - the inside of an RpGgufFile. Keys, strings, arrays and tensor data point into `data`; they are
 * never copied. A mapped file is unmapped by rp_gguf_close; memory given by the caller stays the caller's. */
#ifndef MODEL_GGUF_GGUF_FILE_H
#define MODEL_GGUF_GGUF_FILE_H

#include "reprise/gguf.h"

struct RpGgufFile {
    char                *path;
    const unsigned char *data;
    size_t               bytes, data_at, alignment; /* data_at: offset of the tensor data */
    bool                 mapped;                    /* by us: to be unmapped */
    uint32_t             version;
    RpGgufValue         *values;
    int64_t              n_values;
    RpGgufTensor        *tensors;
    int64_t              n_tensors;
    uint32_t            *value_index,
        *tensor_index; /* [slots]: number + 1, or 0: free; rp_hash of the name, linear probing */
    size_t value_slots, tensor_slots;
};

/* Build the hash indices of keys and of tensor names. RP_E_FORMAT for a name that occurs twice. */
RP_NODISCARD RpStatus rp_gguf_index_values(RpGgufFile *f);
RP_NODISCARD RpStatus rp_gguf_index_tensors(RpGgufFile *f);

#endif
