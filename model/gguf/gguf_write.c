/* Writes GGUF files. Values and tensor table are built in memory; tensor data goes straight to the file. The file
 * appears under its name only when it is complete (reprise/file.h). */
#include "model/gguf/gguf_write.h"

#include "base/files/new_file.h"
#include "base/xxh64.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* BUFFER: file systems with large folios keep what is written 2 MiB at a time, at multiples of 2 MiB, on huge pages of
 * the page cache, which a decode reads faster (gguf_map.c). */
enum { ALIGN = 32, VERSION = 3, BUFFER = 4 << 20 };

typedef struct Bytes {
    char  *p;
    size_t n, room;
} Bytes;

struct GgufWriter {
    RpNewFile  *file;
    FILE       *f;      /* its stream */
    char       *buffer; /* of the stream */
    char       *path;
    Bytes       values, tensors; /* encoded metadata and tensor table */
    uint64_t    n_values, n_tensors;
    size_t     *sizes;                   /* [n_tensors], bytes without padding */
    size_t      offset;                  /* of the next tensor to be put, with padding */
    size_t      at, written;             /* the tensor that is being written, and how much of it is */
    size_t      total;                   /* bytes of all tensors without padding */
    bool        no_memory;               /* sticky */
    const char *no_number;               /* or NULL: the name of a type that has no number in files; sticky */
    bool        sums;                    /* the file gets checksums */
    Bytes       front;                   /* their keys, before `values` */
    size_t      metadata_at, tensors_at; /* of the checksums in `front` */
    RpXxh64     hash;                    /* of the tensor that is being written */
};

static void append(GgufWriter *w, Bytes *b, const void *data, size_t n) {
    if (w->no_memory) return;
    if (b->n + n > b->room) {
        char *grown = realloc(b->p, b->room = 2 * (b->n + n) + 256);
        if (grown == NULL) {
            w->no_memory = true;
            return;
        }
        b->p = grown;
    }
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void append_u32(GgufWriter *w, Bytes *b, uint32_t x) { append(w, b, &x, sizeof x); }
static void append_u64(GgufWriter *w, Bytes *b, uint64_t x) { append(w, b, &x, sizeof x); }

static void append_text(GgufWriter *w, Bytes *b, const char *text, size_t len) {
    append_u64(w, b, len);
    append(w, b, text, len);
}

/* The keys of gguf_checksum.h with zeros, which add_up_tensor and write_checksums replace. */
static void make_front(GgufWriter *w) {
    Bytes         *b    = &w->front;
    const uint64_t none = 0;
    append_text(w, b, GGUF_KEY_FORMAT, strlen(GGUF_KEY_FORMAT));
    append_u32(w, b, RP_GGUF_U32);
    append_u32(w, b, GGUF_TRAIN_FORMAT);
    append_text(w, b, GGUF_KEY_METADATA, strlen(GGUF_KEY_METADATA));
    append_u32(w, b, RP_GGUF_U64);
    w->metadata_at = b->n;
    append_u64(w, b, none);
    append_text(w, b, GGUF_KEY_TENSORS, strlen(GGUF_KEY_TENSORS));
    append_u32(w, b, RP_GGUF_ARRAY);
    append_u32(w, b, RP_GGUF_U64);
    append_u64(w, b, w->n_tensors);
    w->tensors_at = b->n;
    for (uint64_t i = 0; i < w->n_tensors; i++) append_u64(w, b, none);
    w->n_values += 3;
}

/* The head of a value: key and type. */
static void key_of(GgufWriter *w, const char *key, RpGgufType type) {
    append_text(w, &w->values, key, strlen(key));
    append_u32(w, &w->values, (uint32_t)type);
    w->n_values++;
}

void rp_gguf_put_checksums(GgufWriter *w) { w->sums = true; }

void rp_gguf_put_u32(GgufWriter *w, const char *key, uint32_t value) {
    key_of(w, key, RP_GGUF_U32);
    append_u32(w, &w->values, value);
}

void rp_gguf_put_f32(GgufWriter *w, const char *key, float value) {
    key_of(w, key, RP_GGUF_F32);
    append(w, &w->values, &value, sizeof value);
}

void rp_gguf_put_bool(GgufWriter *w, const char *key, bool value) {
    key_of(w, key, RP_GGUF_BOOL);
    append(w, &w->values, &value, 1);
}

void rp_gguf_put_string(GgufWriter *w, const char *key, const char *value) {
    key_of(w, key, RP_GGUF_STRING);
    append_text(w, &w->values, value, strlen(value));
}

void rp_gguf_put_array(GgufWriter *w, const char *key, RpGgufType type, uint64_t n) {
    key_of(w, key, RP_GGUF_ARRAY);
    append_u32(w, &w->values, (uint32_t)type);
    append_u64(w, &w->values, n);
}

void rp_gguf_put_element(GgufWriter *w, const void *data, size_t bytes) { append(w, &w->values, data, bytes); }

void rp_gguf_put_text(GgufWriter *w, const char *text, size_t len) { append_text(w, &w->values, text, len); }

static size_t elements_size(const RpGgufValue *v) {
    static const size_t sizes[RP_GGUF_TYPE_COUNT] = {
        [RP_GGUF_U8] = 1,  [RP_GGUF_I8] = 1,  [RP_GGUF_U16] = 2, [RP_GGUF_I16] = 2,
        [RP_GGUF_U32] = 4, [RP_GGUF_I32] = 4, [RP_GGUF_F32] = 4, [RP_GGUF_BOOL] = 1,
        [RP_GGUF_U64] = 8, [RP_GGUF_I64] = 8, [RP_GGUF_F64] = 8};
    const RpGgufType type = v->type == RP_GGUF_ARRAY ? v->elem_type : v->type;
    if (type != RP_GGUF_STRING) return sizes[type] * (size_t)v->n;
    const void *cursor = v->data;
    for (uint64_t i = 0; i < v->n; i++) (void)rp_gguf_next_string(&cursor);
    return (size_t)((const char *)cursor - (const char *)v->data);
}

void rp_gguf_put_value(GgufWriter *w, const RpGgufValue *v) {
    append_text(w, &w->values, v->key.ptr, v->key.len);
    append_u32(w, &w->values, (uint32_t)v->type);
    if (v->type == RP_GGUF_ARRAY) {
        append_u32(w, &w->values, (uint32_t)v->elem_type);
        append_u64(w, &w->values, v->n);
    }
    append(w, &w->values, v->data, elements_size(v));
    w->n_values++;
}

static bool is_one_of(RpGgufString key, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (key.len == strlen(keys[i]) && memcmp(key.ptr, keys[i], key.len) == 0) return true;
    return false;
}

void rp_gguf_put_values(GgufWriter *w, const RpGgufFile *f, bool types) {
    static const char *const left_out[] = {"general.alignment", "general.file_type", "general.quantization_version"};
    const size_t             n          = types ? 1 : sizeof left_out / sizeof left_out[0];
    for (int64_t i = 0; i < rp_gguf_n_values(f); i++) {
        const RpGgufValue *v = rp_gguf_value(f, i);
        if (!is_one_of(v->key, left_out, n) && !rp_gguf_is_training(v->key)) rp_gguf_put_value(w, v);
    }
}

static size_t padded(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

void rp_gguf_put_tensor(GgufWriter *w, const char *name, size_t name_len, RpDtype dtype,
                        const int64_t ne[RP_MAX_DIMS]) {
    uint32_t n_dims = RP_MAX_DIMS;
    while (n_dims > 1 && ne[n_dims - 1] == 1) n_dims--; /* trailing dimensions of 1 are left out */
    append_text(w, &w->tensors, name, name_len);
    append_u32(w, &w->tensors, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) append_u64(w, &w->tensors, (uint64_t)ne[i]);
    if (rp_dtype_info(dtype)->gguf_type < 0) w->no_number = rp_dtype_name(dtype);
    append_u32(w, &w->tensors, (uint32_t)rp_dtype_info(dtype)->gguf_type);
    append_u64(w, &w->tensors, w->offset);
    size_t *grown = realloc(w->sizes, (size_t)(w->n_tensors + 1) * sizeof *grown);
    if (grown == NULL) {
        w->no_memory = true;
        return;
    }
    w->sizes                 = grown;
    w->sizes[w->n_tensors++] = rp_row_bytes(dtype, ne[0]) * (size_t)(ne[1] * ne[2] * ne[3]);
    w->total += w->sizes[w->n_tensors - 1];
    w->offset += padded(w->sizes[w->n_tensors - 1]);
}

static RpStatus put(GgufWriter *w, const void *data, size_t bytes) {
    if (bytes == 0 || fwrite(data, 1, bytes, w->f) == bytes) return RP_OK;
    return rp_fail(RP_E_IO, "%s: %s", w->path, strerror(errno));
}

static RpStatus pad(GgufWriter *w, size_t n) {
    static const char zeros[ALIGN];
    return put(w, zeros, padded(n) - n);
}

typedef struct Head {
    uint32_t magic, version;
    uint64_t n_tensors, n_values;
} Head;

static Head head_of(const GgufWriter *w) {
    return (Head){
        .magic = 0x46554747u /* "GGUF" */, .version = VERSION, .n_tensors = w->n_tensors, .n_values = w->n_values};
}

RpStatus rp_gguf_writer_begin(GgufWriter *w) {
    if (w->sums) make_front(w);
    if (w->no_memory) return rp_fail(RP_E_NOMEM, "%s: out of memory for the metadata", w->path);
    if (w->no_number != NULL)
        return rp_fail(RP_E_DTYPE, "%s: the type %s has no number in GGUF files", w->path, w->no_number);
    const Head head = head_of(w);
    RP_TRY(put(w, &head, sizeof head));
    RP_TRY(put(w, w->front.p, w->front.n));
    RP_TRY(put(w, w->values.p, w->values.n));
    RP_TRY(put(w, w->tensors.p, w->tensors.n));
    w->at      = 0;
    w->written = 0;
    rp_xxh64_begin(&w->hash);
    return pad(w, sizeof head + w->front.n + w->values.n + w->tensors.n);
}

static void add_up_tensor(GgufWriter *w) {
    const uint64_t sum = rp_xxh64_end(&w->hash);
    memcpy(w->front.p + w->tensors_at + w->at * sizeof sum, &sum, sizeof sum);
    rp_xxh64_begin(&w->hash);
}

RpStatus rp_gguf_writer_data(GgufWriter *w, const void *data, size_t bytes) {
    if (w->at >= w->n_tensors || w->written + bytes > w->sizes[w->at])
        return rp_fail(RP_E_STATE, "%s: %zu bytes go past the end of the tensor", w->path, bytes);
    RP_TRY(put(w, data, bytes));
    if (w->sums) rp_xxh64_add(&w->hash, data, bytes);
    w->written += bytes;
    if (w->written < w->sizes[w->at]) return RP_OK;
    if (w->sums) add_up_tensor(w);
    w->written = 0;
    return pad(w, w->sizes[w->at++]);
}

RpStatus rp_gguf_writer_hollow(GgufWriter *w) {
    const off_t at = ftello(w->f);
    if (at < 0 || fflush(w->f) != 0 || ftruncate(fileno(w->f), at + (off_t)w->offset) != 0)
        return rp_fail(RP_E_IO, "%s: %s", w->path, strerror(errno));
    w->at = w->n_tensors;
    return RP_OK;
}

RpStatus rp_gguf_writer_open(const char *path, GgufWriter **out) {
    struct stat st_path;
    *out = NULL;
    if (stat(path, &st_path) == 0 && !S_ISREG(st_path.st_mode)) /* a pipe cannot be sought, a device is no model */
        return rp_fail(RP_E_ARG, "%s: exists and is not a regular file", path);
    GgufWriter *w = calloc(1, sizeof *w);
    if (w == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    w->path     = strdup(path);
    w->buffer   = malloc(BUFFER);
    RpStatus st = w->path != NULL && w->buffer != NULL ? rp_new_file_open(path, &w->file)
                                                       : rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    if (st != RP_OK) return rp_gguf_writer_close(w, st);
    w->f = rp_new_file_stream(w->file);
    (void)setvbuf(w->f, w->buffer, _IOFBF, BUFFER); /* fails for invalid arguments alone */
    *out = w;
    return RP_OK;
}

RpStatus rp_gguf_writer_keep(GgufWriter *w, const char *suffix) { return rp_new_file_keep(w->file, suffix); }

/* Once all tensors are written their checksums are known, and so is that of the metadata. */
static RpStatus write_checksums(GgufWriter *w) {
    static const char zeros[ALIGN];
    const Head        head = head_of(w);
    const size_t      n    = sizeof head + w->front.n + w->values.n + w->tensors.n;
    RpXxh64           h;
    rp_xxh64_begin(&h);
    rp_xxh64_add(&h, &head, sizeof head);
    rp_xxh64_add(&h, w->front.p, w->front.n);
    rp_xxh64_add(&h, w->values.p, w->values.n);
    rp_xxh64_add(&h, w->tensors.p, w->tensors.n);
    rp_xxh64_add(&h, zeros, padded(n) - n);
    const uint64_t sum = rp_xxh64_end(&h);
    memcpy(w->front.p + w->metadata_at, &sum, sizeof sum);
    if (fseeko(w->f, sizeof head, SEEK_SET) != 0) return rp_fail(RP_E_IO, "%s: %s", w->path, strerror(errno));
    return put(w, w->front.p, w->front.n);
}

void rp_gguf_writer_drop(GgufWriter *w) {
    if (w == NULL) return;
    free(w->front.p);
    free(w->values.p);
    free(w->tensors.p);
    free(w->sizes);
    free(w->buffer);
    free(w->path);
    free(w);
}

RpStatus rp_gguf_writer_close(GgufWriter *w, RpStatus status) {
    if (status == RP_OK && w->at != w->n_tensors) status = rp_fail(RP_E_STATE, "%s: tensors are missing", w->path);
    if (status == RP_OK && w->sums) status = write_checksums(w);
    status = rp_new_file_close(w->file, status);
    rp_gguf_writer_drop(w);
    return status;
}

/* ---- in memory ---- */

RpStatus rp_gguf_writer_memory(const char *name, GgufWriter **out) {
    GgufWriter *w = calloc(1, sizeof *w);
    *out          = w;
    if (w != NULL && (w->path = strdup(name)) != NULL) return RP_OK;
    free(w);
    *out = NULL;
    return rp_fail(RP_E_NOMEM, "%s: out of memory", name);
}

RpStatus rp_gguf_writer_take(const GgufWriter *w, char **data, size_t *bytes) {
    const Head head = head_of(w);
    *bytes          = sizeof head + w->values.n;
    *data           = w->no_memory ? NULL : malloc(*bytes);
    if (*data == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for the metadata", w->path);
    memcpy(*data, &head, sizeof head);
    if (w->values.n > 0) memcpy(*data + sizeof head, w->values.p, w->values.n);
    return RP_OK;
}

RpStatus rp_gguf_writer_read(const GgufWriter *w, RpGgufFile **out) {
    char  *data;
    size_t bytes;
    RP_TRY(rp_gguf_writer_take(w, &data, &bytes));
    const RpStatus st = rp_gguf_open_memory(data, bytes, w->path, out);
    if (st == RP_OK)
        (*out)->parts.metadata = data;
    else
        free(data);
    return st;
}

size_t rp_gguf_writer_total(const GgufWriter *w) { return w->total; }
