/* safetensors.h - reads the header of one file of weights in the format safetensors.
 *
 *     0        u64 n, little endian
 *     8        n bytes of JSON: {"name": {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [from, to]}, ...}
 *     8 + n    data; offsets are counted from here
 *
 * "__metadata__" holds texts and is no tensor. Every name, shape and offset is checked: the data of the tensors
 * cover the rest of the file without a gap and without overlap, as the format demands. Data is mapped, and never
 * copied. */
#ifndef MODEL_HF_SAFETENSORS_H
#define MODEL_HF_SAFETENSORS_H

#include "reprise/gguf.h"

#include "base/text/json_read.h"

/* X(ID, name in the file, bytes of an element, dtype that computes with it or -1) */
#define SAFE_TYPES(X)                                                                                                  \
    X(F64, "F64", 8, -1)                                                                                               \
    X(F32, "F32", 4, RP_F32)                                                                                           \
    X(F16, "F16", 2, RP_F16)                                                                                           \
    X(BF16, "BF16", 2, RP_BF16)                                                                                        \
    X(F8_E4M3, "F8_E4M3", 1, -1)                                                                                       \
    X(F8_E5M2, "F8_E5M2", 1, -1)                                                                                       \
    X(F8_E8M0, "F8_E8M0", 1, -1)                                                                                       \
    X(I64, "I64", 8, -1)                                                                                               \
    X(I32, "I32", 4, -1)                                                                                               \
    X(I16, "I16", 2, -1)                                                                                               \
    X(I8, "I8", 1, -1)                                                                                                 \
    X(U64, "U64", 8, -1)                                                                                               \
    X(U32, "U32", 4, -1)                                                                                               \
    X(U16, "U16", 2, -1)                                                                                               \
    X(U8, "U8", 1, -1)                                                                                                 \
    X(BOOL, "BOOL", 1, -1)

typedef enum SafeType {
#define X(ID, name, bytes, dtype) SAFE_##ID,
    SAFE_TYPES(X)
#undef X
        SAFE_TYPE_COUNT
} SafeType;

const char *rp_safe_type_name(SafeType type);
int         rp_safe_type_dtype(SafeType type); /* RpDtype, or -1: the library does not compute with it */

typedef struct SafeTensor {
    RpGgufString         name; /* in Safetensors.header */
    SafeType             type;
    int64_t              ne[RP_MAX_DIMS]; /* ne[0] contiguous: the shape of the file, reversed; then 1 */
    int                  n_dims;          /* may be more than RP_MAX_DIMS; the last of `ne` has the rest then */
    const unsigned char *data;            /* mapped */
    size_t               bytes;
} SafeTensor;

/* All elements as f32, of a type that rp_safe_type_dtype knows. Data may lie at any address. */
void rp_safe_to_f32(const SafeTensor *t, float *out);

typedef struct Safetensors {
    RpGgufFile *file; /* path and mapping; borrowed */
    Json        header;
    SafeTensor *tensors;
    size_t      n;
} Safetensors;

/* Reads the header of a file that was opened by rp_gguf_open_part, and which *out borrows. RP_E_FORMAT with path
 * and tensor. The caller frees *out with rp_safetensors_free, also after a failure. */
RP_NODISCARD RpStatus rp_safetensors_read(RpGgufFile *file, Safetensors *out);
void                  rp_safetensors_free(Safetensors *s);

#endif
