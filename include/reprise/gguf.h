/* gguf.h - read a GGUF file (version 2 or 3, little endian): metadata and tensors. Metadata is copied, tensor data is
 * memory-mapped, and every count, length, type and offset is checked at open (I11).
 *
 *   RpGgufFile *f;
 *   RP_TRY(rp_gguf_open("model.gguf", &f));
 *   uint32_t n_layer = 0;
 *   RP_TRY(rp_gguf_get_u32(f, "llama.block_count", &n_layer));
 *   const RpGgufTensor *t = rp_gguf_find_tensor(f, "token_embd.weight");
 *   rp_gguf_close(f);
 *
 * All pointers that the accessors return are owned by the file and valid until rp_gguf_close. Strings are NOT
 * terminated: use (ptr, len).
 *
 * Files that change. Metadata cannot change after rp_gguf_open: it was read once, into private memory. A file whose
 * size or time of modification changes during the open is refused. Tensor data is the page cache of the file: what
 * another process writes into the file in place shows in the tensors, and a file that becomes shorter makes the access
 * to a page that it has lost raise SIGBUS, which ends the process. Neither can be detected afterwards. A program that
 * renames a new file over the old one (as file.h does) is harmless: the mapping keeps the old file. RpModelOptions.copy
 * and the program's --no-mmap read the file into memory, which avoids both.
 *
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef REPRISE_GGUF_H
#define REPRISE_GGUF_H

#include "reprise/status.h"
#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpGgufFile RpGgufFile;

/* Type numbers of metadata values as the format defines them. */
typedef enum RpGgufType {
    RP_GGUF_U8,
    RP_GGUF_I8,
    RP_GGUF_U16,
    RP_GGUF_I16,
    RP_GGUF_U32,
    RP_GGUF_I32,
    RP_GGUF_F32,
    RP_GGUF_BOOL,
    RP_GGUF_STRING,
    RP_GGUF_ARRAY,
    RP_GGUF_U64,
    RP_GGUF_I64,
    RP_GGUF_F64,
    RP_GGUF_TYPE_COUNT
} RpGgufType;

/* Borrowed and not terminated. */
typedef struct RpGgufString {
    const char *ptr;
    size_t      len;
} RpGgufString;

typedef struct RpGgufValue {
    RpGgufString key;
    RpGgufType   type;
    RpGgufType   elem_type; /* of the elements of an array, never ARRAY; otherwise the same as type */
    uint64_t     n;         /* elements of an array, 1 otherwise */
    const void  *data;      /* the first element as stored in the file: unaligned, little endian */
} RpGgufValue;

typedef struct RpGgufTensor {
    RpGgufString name;
    uint32_t     gguf_type; /* type number in the file; rp_gguf_type_name has its name */
    bool         known;     /* the library computes with this type; otherwise only view.ne is filled in */
    RpTensorView view;      /* data is owned by the file, aligned to general.alignment; read only */
    size_t       bytes;
} RpGgufTensor;

/* The path is copied. The caller closes *out; on failure it is NULL. RP_E_IO, also for a file that changes meanwhile;
 * RP_E_NOMEM; RP_E_FORMAT with file, item and byte offset; RP_E_UNSUPPORTED for a big-endian file, another version or
 * nested arrays. A tensor of a type that the library cannot compute with is kept with known = false; a type of unknown
 * block size is RP_E_FORMAT.
 * The path may be the first part of a split file, NAME-00001-of-00003.gguf: the other parts are opened too, and the
 * file has the tensors of all. RP_E_ARG for another part.
 * The path may be a Hugging Face directory (config.json, *.safetensors, tokenizer.json). Its contents have the keys and
 * tensor names of GGUF; rows of q and k stay in the order of Hugging Face (docs/models.md). */
RP_API RP_NODISCARD RpStatus rp_gguf_open(const char *path, RpGgufFile **out);

/* The same from memory, which it borrows until rp_gguf_close, and which must not change. `name` stands for the path in
 * errors and is copied. `data` may be NULL if `bytes` is 0. */
RP_API RP_NODISCARD RpStatus rp_gguf_open_memory(const void *data, size_t bytes, const char *name, RpGgufFile **out);
RP_API void                  rp_gguf_close(RpGgufFile *f); /* NULL is allowed */

RP_API const char *rp_gguf_path(const RpGgufFile *f);
RP_API uint32_t    rp_gguf_version(const RpGgufFile *f); /* 2 or 3; 0: a Hugging Face directory */
RP_API size_t      rp_gguf_bytes(const RpGgufFile *f);   /* of the file, or of all files that were read */

/* By index, NULL outside 0 <= i < n, or by name in constant time, NULL if there is none of that name. */
RP_API int64_t             rp_gguf_n_values(const RpGgufFile *f);
RP_API const RpGgufValue  *rp_gguf_value(const RpGgufFile *f, int64_t i);
RP_API const RpGgufValue  *rp_gguf_find(const RpGgufFile *f, const char *key);
RP_API int64_t             rp_gguf_n_tensors(const RpGgufFile *f);
RP_API const RpGgufTensor *rp_gguf_tensor(const RpGgufFile *f, int64_t i);
RP_API const RpGgufTensor *rp_gguf_find_tensor(const RpGgufFile *f, const char *name);

RP_API const char *rp_gguf_value_type_name(RpGgufType type); /* "u32", "string", ...; static storage; "?" for no type */

/* Typed reads of a key. If the key is absent they return RP_OK and leave *out unchanged, so that it can hold a default.
 * u32 takes any number that is whole and in range, f32 any number or boolean, rounded to float; bool and string take
 * their own type only. Anything else is RP_E_FORMAT, which names file and key. A string is borrowed from the file. */
RP_API RP_NODISCARD RpStatus rp_gguf_get_u32(const RpGgufFile *f, const char *key, uint32_t *out);
RP_API RP_NODISCARD RpStatus rp_gguf_get_f32(const RpGgufFile *f, const char *key, float *out);
RP_API RP_NODISCARD RpStatus rp_gguf_get_bool(const RpGgufFile *f, const char *key, bool *out);
RP_API RP_NODISCARD RpStatus rp_gguf_get_string(const RpGgufFile *f, const char *key, RpGgufString *out);

/* Element i < value->n of an array, or element 0 of a single value: a string, or a number or boolean, which becomes a
 * double. A value of another type and an index out of range give an empty string, or NaN. rp_gguf_string_at takes time
 * proportional to i. */
RP_API RpGgufString rp_gguf_string_at(const RpGgufValue *value, uint64_t i);
RP_API double       rp_gguf_number_at(const RpGgufValue *value, uint64_t i);

/* Walks an array of strings: the cursor starts at value->data and moves to the next string. Call it at most value->n
 * times (not checked). */
RP_API RpGgufString rp_gguf_next_string(const void **cursor);

#ifdef __cplusplus
}
#endif
#endif
