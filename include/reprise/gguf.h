/* gguf.h - read a GGUF file (version 2 or 3): metadata and tensors, memory-mapped and checked.
 *
 *   GgufFile *f;
 *   RP_TRY(rp_gguf_open("model.gguf", &f));
 *   const GgufValue *arch = rp_gguf_find(f, "general.architecture");
 *   const GgufTensor *t = rp_gguf_find_tensor(f, "token_embd.weight");
 *
 * Every count, length, type and offset is checked against the file at open; what the accessors return lies inside the
 * mapping and stays valid until rp_gguf_close. Strings are NOT terminated: use (ptr, len).
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef REPRISE_GGUF_H
#define REPRISE_GGUF_H

#include "reprise/status.h"
#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct GgufFile GgufFile;

typedef enum GgufType {
    RP_GGUF_U8, RP_GGUF_I8, RP_GGUF_U16, RP_GGUF_I16, RP_GGUF_U32, RP_GGUF_I32, RP_GGUF_F32, RP_GGUF_BOOL,
    RP_GGUF_STRING, RP_GGUF_ARRAY, RP_GGUF_U64, RP_GGUF_I64, RP_GGUF_F64, RP_GGUF_TYPE_COUNT
} GgufType;

typedef struct GgufString {
    const char *ptr;
    size_t      len;
} GgufString;

typedef struct GgufValue {
    GgufString key;
    GgufType   type;
    GgufType   elem_type; /* arrays only; never ARRAY: nested arrays are refused at open */
    uint64_t   n;         /* elements of an array, 1 otherwise */
    const void *data;     /* the first element as it stands in the file: unaligned, little endian */
} GgufValue;

typedef struct GgufTensor {
    GgufString name;
    uint32_t   gguf_type;
    bool       known;   /* dtype is one of ours; otherwise view.data is NULL */
    TensorView view;    /* data points into the mapping, aligned to general.alignment; read only */
    size_t     bytes;
} GgufTensor;

/* RP_E_IO, RP_E_FORMAT (with file, what and byte offset), RP_E_NOMEM. A big-endian file, or one of version 1, is
 * RP_E_UNSUPPORTED. A tensor of a type that is not known here is kept with known = false, unless its size cannot be
 * told. */
RP_NODISCARD RpStatus rp_gguf_open(const char *path, GgufFile **out);

/* The same over memory that the caller keeps until rp_gguf_close; `name` stands for the path in errors. */
RP_NODISCARD RpStatus rp_gguf_open_memory(const void *data, size_t bytes, const char *name, GgufFile **out);
void                  rp_gguf_close(GgufFile *f);

const char *rp_gguf_path(const GgufFile *f);
uint32_t    rp_gguf_version(const GgufFile *f);
size_t      rp_gguf_bytes(const GgufFile *f);

int64_t           rp_gguf_n_values(const GgufFile *f);
const GgufValue  *rp_gguf_value(const GgufFile *f, int64_t i);
const GgufValue  *rp_gguf_find(const GgufFile *f, const char *key); /* hashed; NULL if absent */
int64_t           rp_gguf_n_tensors(const GgufFile *f);
const GgufTensor *rp_gguf_tensor(const GgufFile *f, int64_t i);
const GgufTensor *rp_gguf_find_tensor(const GgufFile *f, const char *name);

const char *rp_gguf_value_type_name(GgufType type); /* "u32", "string", ... */

/* Typed reads of a key: *out is unchanged and RP_OK returned when the key is absent (so it holds the default). A value
 * of another type that converts exactly is converted; anything else is RP_E_FORMAT naming file and key. */
RP_NODISCARD RpStatus rp_gguf_get_u32(const GgufFile *f, const char *key, uint32_t *out);
RP_NODISCARD RpStatus rp_gguf_get_f32(const GgufFile *f, const char *key, float *out);
RP_NODISCARD RpStatus rp_gguf_get_bool(const GgufFile *f, const char *key, bool *out);
RP_NODISCARD RpStatus rp_gguf_get_string(const GgufFile *f, const char *key, GgufString *out);

/* Element i < value->n of an array (or i = 0 of a scalar). The caller has checked the type. Numbers of any type are
 * converted to double. */
GgufString rp_gguf_string_at(const GgufValue *value, uint64_t i);
double     rp_gguf_number_at(const GgufValue *value, uint64_t i);

/* Strings of an array are of varying length: walk them with a cursor that starts at value->data and moves on. */
GgufString rp_gguf_next_string(const void **cursor);

#ifdef __cplusplus
}
#endif
#endif
