/* gguf_write.h - writes a GGUF file, version 3, from front to back (layout in gguf.c): open, put values and
 * tensors in any order, begin, then the data of all tensors in the order in which they were put, close. */
#ifndef MODEL_GGUF_GGUF_WRITE_H
#define MODEL_GGUF_GGUF_WRITE_H

#include "reprise/gguf.h"

typedef struct GgufWriter GgufWriter;

/* The file stands under `path` after rp_gguf_writer_close. RP_E_ARG for an existing path that is not a regular
 * file, such as a device or a folder; other errors of rp_new_file_open. */
RP_NODISCARD RpStatus rp_gguf_writer_open(const char *path, GgufWriter **out);

/* The file that `path` names stays as "<path><suffix>" when the new one is renamed into place
 * (base/files/new_file.h). */
RP_NODISCARD RpStatus rp_gguf_writer_keep(GgufWriter *w, const char *suffix);

/* Metadata, collected in memory. Running out of memory is reported by rp_gguf_writer_begin. */
void rp_gguf_put_u32(GgufWriter *w, const char *key, uint32_t value);
void rp_gguf_put_f32(GgufWriter *w, const char *key, float value);
void rp_gguf_put_bool(GgufWriter *w, const char *key, bool value);
void rp_gguf_put_string(GgufWriter *w, const char *key, const char *value);
void rp_gguf_put_array(GgufWriter *w, const char *key, RpGgufType type,
                       uint64_t n); /* n elements follow, by the next two: */
void rp_gguf_put_element(GgufWriter *w, const void *data, size_t bytes);
void rp_gguf_put_text(GgufWriter *w, const char *text, size_t len);
void rp_gguf_put_value(GgufWriter *w, const RpGgufValue *value); /* copied from another file */

/* Copies all values but general.alignment, which the writer chooses, and "train.*" (gguf_file.h). Without `types`
 * also all but general.file_type and general.quantization_version: they describe the tensors of `f`. */
void rp_gguf_put_values(GgufWriter *w, const RpGgufFile *f, bool types);

/* Announces a tensor: its entry in the table, with the offset that follows from those before it. */
void rp_gguf_put_tensor(GgufWriter *w, const char *name, size_t name_len, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);

/* Writes header, metadata, tensor table and padding. Nothing can be put after it. */
RP_NODISCARD RpStatus rp_gguf_writer_begin(GgufWriter *w);

/* Extends the file over the data of all tensors at once, as a hole: zeros that take no disk space. */
RP_NODISCARD RpStatus rp_gguf_writer_hollow(GgufWriter *w);

/* The next bytes of tensor data; padding between tensors is added. RP_E_STATE for bytes past the end of a
 * tensor. */
RP_NODISCARD RpStatus rp_gguf_writer_data(GgufWriter *w, const void *data, size_t bytes);

/* The file gets the checksums of gguf_checksum.h. Call it before rp_gguf_writer_begin, and not with
 * rp_gguf_writer_hollow. */
void rp_gguf_put_checksums(GgufWriter *w);

/* Renames the file into place if all of it was written and `status` is RP_OK; removes it otherwise. Frees the
 * writer and returns the first failure. */
RP_NODISCARD RpStatus rp_gguf_writer_close(GgufWriter *w, RpStatus status);

/* Metadata without a file: values are put, taken as GGUF without tensors, and the writer is dropped. `name` stands
 * for the path in errors. The caller frees *data. rp_gguf_writer_read parses them: the file owns its bytes, the caller
 * closes it. */
RP_NODISCARD RpStatus rp_gguf_writer_memory(const char *name, GgufWriter **out);
RP_NODISCARD RpStatus rp_gguf_writer_take(const GgufWriter *w, char **data, size_t *bytes);
RP_NODISCARD RpStatus rp_gguf_writer_read(const GgufWriter *w, RpGgufFile **out);
void                  rp_gguf_writer_drop(GgufWriter *w);

size_t rp_gguf_writer_total(const GgufWriter *w); /* bytes of all tensors */

#endif
