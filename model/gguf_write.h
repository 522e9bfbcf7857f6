/* gguf_write.h - a GGUF file, version 3, written front to back: metadata and tensor shapes, then the tensors'
 * rows. */
#ifndef MODEL_GGUF_WRITE_H
#define MODEL_GGUF_WRITE_H

#include "reprise/gguf.h"

typedef struct GgufWriter GgufWriter;

/* Writes to a file beside `path` until rp_gguf_writer_close. */
RP_NODISCARD RpStatus rp_gguf_writer_open(const char *path, GgufWriter **out);

/* Metadata. Out of memory shows in rp_gguf_writer_begin. */
void rp_gguf_put_u32(GgufWriter *w, const char *key, uint32_t value);
void rp_gguf_put_f32(GgufWriter *w, const char *key, float value);
void rp_gguf_put_bool(GgufWriter *w, const char *key, bool value);
void rp_gguf_put_string(GgufWriter *w, const char *key, const char *value);
void rp_gguf_put_array(GgufWriter *w, const char *key, GgufType type, uint64_t n); /* n elements follow: */
void rp_gguf_put_element(GgufWriter *w, const void *data, size_t bytes);
void rp_gguf_put_text(GgufWriter *w, const char *text, size_t len);
void rp_gguf_put_value(GgufWriter *w, const GgufValue *value); /* as it stands in another file */

/* A tensor to come, in the order of the writing. */
void rp_gguf_put_tensor(GgufWriter *w, const char *name, size_t name_len, RpDtype dtype,
                        const int64_t ne[RP_MAX_DIMS]);

/* Ends the metadata. */
RP_NODISCARD RpStatus rp_gguf_writer_begin(GgufWriter *w);

/* Every tensor at once, as a hole in the file: zeros that take no room. */
RP_NODISCARD RpStatus rp_gguf_writer_hollow(GgufWriter *w);

/* The next bytes of the tensor at hand; the padding between tensors is added. */
RP_NODISCARD RpStatus rp_gguf_writer_data(GgufWriter *w, const void *data, size_t bytes);

/* Renames the file into place where all of it was written and `status` is RP_OK, removes it otherwise.
 * Returns the first failure. */
RP_NODISCARD RpStatus rp_gguf_writer_close(GgufWriter *w, RpStatus status);

size_t rp_gguf_writer_total(const GgufWriter *w); /* bytes of all tensors */

#endif
