/* gguf_file.h - the inside of an RpGgufFile. Keys, strings, arrays and tensor data point into `data`. What was
 * mapped or read is unmapped by rp_gguf_close; memory given by the caller stays the caller's. */
#ifndef MODEL_GGUF_GGUF_FILE_H
#define MODEL_GGUF_GGUF_FILE_H

#include "reprise/gguf.h"

/* A flag of files that are made of a Hugging Face directory: their keys count also where llama.cpp ignores them. */
#define RP_CONFIG_ALL_KEYS "reprise.hf_directory"

#include <string.h>
#include <sys/types.h>
#include <time.h>

typedef struct RpGgufMap {
    char           *data;   /* NULL: the memory is the caller's */
    int             fd;     /* until rp_gguf_end_load; then, and for memory of the caller, -1 */
    bool            copy;   /* private memory for the whole file; else only for what rp_gguf_read_in has read */
    dev_t           device; /* which file it is: device, inode and mtime, as inodes are used again */
    ino_t           inode;
    struct timespec mtime;
} RpGgufMap;

/* The parts of a split file; or the files and memory of a Hugging Face directory beside its metadata (model/hf). All
 * zeros for a GGUF file. With `copy` the files were read when they were opened. */
typedef struct RpGgufParts {
    RpGgufFile           **files; /* owned */
    int                    n_files;
    char                  *metadata, *names; /* `data` of the file, and the names of its tensors; owned */
    char                  *made;             /* tensors that are no bytes of a file; a mapping, owned */
    size_t                 made_bytes;
    const struct HfFamily *family; /* of a directory (model/hf/hf.h) */
    bool norm_rope; /* rows of attn_q and attn_k: pairs (i, i + n/2), while the architecture has (2i, 2i + 1) */
} RpGgufParts;

struct RpGgufFile {
    char                *path;
    const unsigned char *data;
    size_t               bytes, data_at, alignment; /* data_at: offset of the tensor data */
    size_t               read_bytes; /* data[0..read_bytes) can be read; behind it, a mapping of the file */
    RpGgufMap            map;
    RpGgufParts          parts;
    uint32_t             version; /* 0: a directory */
    RpGgufValue         *values;
    int64_t              n_values;
    RpGgufTensor        *tensors;
    int64_t              n_tensors;
    char                *samplers;        /* general.sampling.sequence with NUL behind it, or NULL; owned */
    float               *vectors;         /* of rp_gguf_widen_vectors; owned */
    uint32_t *value_index, *tensor_index; /* [slots]: number + 1, or 0: free; rp_hash of the name, linear probing */
    size_t    value_slots, tensor_slots;
};

/* Maps the file, or with `copy` allocates memory for it, on huge pages if the system has them. Nothing is read yet. */
RP_NODISCARD RpStatus rp_gguf_map(const char *path, bool copy, RpGgufMap *out, size_t *bytes);
void                  rp_gguf_unmap(RpGgufMap *map, size_t bytes);

/* Asks the kernel to read mapped pages that are not in the page cache as huge pages, which it does if the file system
 * has them. It is not asked if the files are larger than three quarters of the memory: each access to a page that is
 * not cached would read 4 MiB, of which an expert may use a part only. False if the kernel was not asked or has no huge
 * pages. */
bool rp_gguf_want_huge_pages(const RpGgufFile *f);

/* Reads mapped pages of the file `path` into memory. `from` begins a page. huge: of rp_gguf_want_huge_pages. RP_E_IO if
 * the kernel cannot read them. */
RP_NODISCARD RpStatus rp_gguf_read_pages(const char *path, void *from, size_t bytes, bool huge);

/* Reads at least data[0..end) into private memory, end <= bytes. RP_E_IO if the file has become shorter. */
RP_NODISCARD RpStatus rp_gguf_read_in(RpGgufFile *f, size_t end);

/* RP_E_FORMAT, with a remedy, for a file that begins as one of another kind: a Git LFS pointer, an HTML page, ...
 * (foreign.c). RP_OK for all others, errors of rp_gguf_read_in. */
RP_NODISCARD RpStatus rp_gguf_refuse_foreign(RpGgufFile *f);

/* RP_E_FORMAT for a file that is no model: an adapter, importance matrix, projector, context or vocabulary. The error
 * says what takes it. */
RP_NODISCARD RpStatus rp_gguf_refuse_kinds(const RpGgufFile *f);

/* Opens a file whose contents other code reads: nothing is parsed. `shown` stands for the path in errors. */
RP_NODISCARD RpStatus rp_gguf_open_part(const char *path, const char *shown, bool copy, RpGgufFile **out);

/* Ends the load of a part and gives its memory back. rp_gguf_refuse_output still knows which file it was. */
RP_NODISCARD RpStatus rp_gguf_forget(RpGgufFile *f);

/* Parses a file, which may be a part of a split one. Takes ownership of the mapping, also on failure. */
RP_NODISCARD RpStatus rp_gguf_open_over(const void *data, size_t bytes, const char *path, RpGgufMap map,
                                        RpGgufFile **out);

/* The same, from a path: the first step of rp_gguf_begin_load, for a GGUF file or one of its parts alone. */
RP_NODISCARD RpStatus rp_gguf_begin_one(const char *path, bool copy, RpGgufFile **out);

/* rp_gguf_begin_one, and where the file is the first part of a split one, the other parts (gguf_split.c). */
RP_NODISCARD RpStatus rp_gguf_begin_file(const char *path, bool copy, RpGgufFile **out);

/* rp_gguf_open in two steps, for more reading between them: with `copy`, rp_gguf_read_in(f, f->bytes). The second
 * fails with RP_E_IO if size or time of modification of the file have changed; the caller closes `f` then. */
RP_NODISCARD RpStatus rp_gguf_begin_load(const char *path, bool copy, RpGgufFile **out);
RP_NODISCARD RpStatus rp_gguf_end_load(RpGgufFile *f);

/* Vectors in f16 and bf16 become f32, in memory of the file. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_gguf_widen_vectors(RpGgufFile *f);

/* The path of the file that `data` lies in, and its place there; NULL if it is in none of the files. */
const char *rp_gguf_find_bytes(const RpGgufFile *f, const void *data, size_t *offset);

/* RP_E_ARG if `path`, to which a file is about to be written, leads to the file `input`. No output may replace an
 * input, although `input` could still be read: the file that the user has would be gone. */
RP_NODISCARD RpStatus rp_gguf_refuse_output(const RpGgufFile *input, const char *path);

/* RP_E_UNSUPPORTED for a directory whose rows of q and k are in another order than those of GGUF
 * (RpGgufParts.norm_rope). `what` begins the sentence: "an adapter". */
RP_NODISCARD RpStatus rp_gguf_need_order(const RpGgufFile *f, const char *what);

/* Name of a tensor or key of a checkpoint that is no part of the model, "train.*" (reprise/train.h). */
static inline bool rp_gguf_is_training(RpGgufString name) {
    static const char prefix[] = "train.";
    return name.len >= sizeof prefix - 1 && memcmp(name.ptr, prefix, sizeof prefix - 1) == 0;
}

/* The name ends with `end`, and is longer. */
static inline bool rp_gguf_ends_with(RpGgufString name, const char *end) {
    const size_t n = strlen(end);
    return name.len > n && memcmp(name.ptr + name.len - n, end, n) == 0;
}

/* Bytes of a value of the type; 0: strings and arrays, whose length varies. */
size_t rp_gguf_value_type_bytes(RpGgufType type);

/* Build the hash indices of keys and of tensor names. RP_E_FORMAT for a name that occurs twice. */
RP_NODISCARD RpStatus rp_gguf_index_values(RpGgufFile *f);
RP_NODISCARD RpStatus rp_gguf_index_tensors(RpGgufFile *f);

#endif
