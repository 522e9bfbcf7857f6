/* Reads a GGUF file, version 2 or 3. Every count, length, type and offset is checked here, once (I11, I12),
 * so that all later reads may trust them. All numbers are little endian and unaligned.
 *
 *     0          "GGUF", u32 version, u64 n_tensors, u64 n_values
 *     24         n_values  x { string key, u32 type, value }
 *                n_tensors x { string name, u32 n_dims, u64 ne[n_dims], u32 type, u64 offset }
 *     data_at    tensor data: tensor i at data_at + offset[i]
 *
 *     string     u64 length, bytes without a terminator
 *     array      u32 elem_type, u64 n, n elements
 * data_at and every offset are multiples of general.alignment (32 if absent). */
#include "model/gguf/gguf_file.h"

#include "base/argument.h"
#include "base/types/custom.h"
#include "model/gguf/gguf_checksum.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_STRING_KEY    = 65535,
    MIN_VALUE_BYTES   = 8 + 4 + 1,         /* bound the counts of the header by the size of the file, */
    MIN_TENSOR_BYTES  = 8 + 4 + 8 + 4 + 8, /* before memory for them is allocated */
    MAX_MAGIC         = 32,                /* bytes by which GGUF and safetensors are told apart */
    DEFAULT_ALIGNMENT = 32,
    FIRST_REUSED      = 40 /* of the type numbers */
};

/* ---- a cursor that cannot leave the file: at <= bytes always ---- */

typedef struct Cursor {
    RpGgufFile *f;
    size_t      at;
} Cursor;

static RpStatus truncated(const Cursor *c, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: %s at byte %zu goes past the end of the file (%zu bytes; truncated?)", c->f->path,
                   what, c->at, c->f->bytes);
}

/* The next n bytes. The comparison cannot overflow, as n + at could. */
static RpStatus take(Cursor *c, size_t n, const char *what, const void **out) {
    *out = c->f->data + c->at;
    if (n > c->f->bytes - c->at) return truncated(c, what);
    RP_TRY(rp_gguf_read_in(c->f, c->at + n));
    c->at += n;
    return RP_OK;
}

static RpStatus take_u32(Cursor *c, const char *what, uint32_t *out) {
    const void *p;
    RP_TRY(take(c, sizeof *out, what, &p));
    memcpy(out, p, sizeof *out);
    return RP_OK;
}

static RpStatus take_u64(Cursor *c, const char *what, uint64_t *out) {
    const void *p;
    RP_TRY(take(c, sizeof *out, what, &p));
    memcpy(out, p, sizeof *out);
    return RP_OK;
}

static RpStatus take_string(Cursor *c, const char *what, RpGgufString *out) {
    uint64_t    len;
    const void *p;
    RP_TRY(take_u64(c, what, &len));
    if (len > c->f->bytes - c->at) return truncated(c, what);
    RP_TRY(take(c, (size_t)len, what, &p));
    *out = (RpGgufString){.ptr = p, .len = (size_t)len};
    return RP_OK;
}

/* A string that can be a key: not empty, no NUL inside. */
static RpStatus take_name(Cursor *c, const char *what, RpGgufString *out) {
    const size_t at = c->at;
    RP_TRY(take_string(c, what, out));
    if (out->len == 0 || out->len > MAX_STRING_KEY || memchr(out->ptr, '\0', out->len) != NULL)
        return rp_fail(RP_E_FORMAT, "%s: %s at byte %zu is not a name (%zu bytes)", c->f->path, what, at, out->len);
    return RP_OK;
}

static RpStatus truncated_array(const Cursor *c, const RpGgufValue *v, const char *what) {
    if (v->type != RP_GGUF_ARRAY) return truncated(c, "a value");
    return rp_fail(RP_E_FORMAT,
                   "%s: %.*s: %s at byte %zu, of %llu elements, goes past the end of the file (%zu bytes; "
                   "truncated?)",
                   c->f->path, (int)v->key.len, v->key.ptr, what, c->at, (unsigned long long)v->n, c->f->bytes);
}

/* Walks over the elements of a value. Strings are walked one by one, so that later cursors need no checks. */
static RpStatus take_elements(Cursor *c, RpGgufValue *v) {
    const void *p;
    v->data = c->f->data + c->at;
    if (v->elem_type == RP_GGUF_STRING) {
        /* every string has at least its length: bounds n before the loop */
        if (v->n > (c->f->bytes - c->at) / sizeof(uint64_t)) return truncated_array(c, v, "an array of strings");
        RpGgufString s;
        for (uint64_t i = 0; i < v->n; i++) RP_TRY(take_string(c, "a string", &s));
        return RP_OK;
    }
    const size_t size = rp_gguf_value_type_bytes(v->elem_type);
    /* by division: n * size could overflow */
    if (v->n > (c->f->bytes - c->at) / size) return truncated_array(c, v, "an array");
    RP_TRY(take(c, (size_t)v->n * size, "a value", &p));
    for (uint64_t i = 0; v->elem_type == RP_GGUF_BOOL && i < v->n; i++)
        if (((const uint8_t *)p)[i] > 1)
            return rp_fail(RP_E_FORMAT, "%s: %.*s is a bool of value %u", c->f->path, (int)v->key.len, v->key.ptr,
                           ((const uint8_t *)p)[i]);
    return RP_OK;
}

/* The type of a value or of the elements of an array (I12). */
static RpStatus take_type(Cursor *c, const RpGgufValue *v, RpGgufType *out) {
    const size_t at = c->at;
    uint32_t     type;
    RP_TRY(take_u32(c, "the type of a value", &type));
    if (type >= RP_GGUF_TYPE_COUNT)
        return rp_fail(RP_E_FORMAT, "%s: %.*s is of the unknown type %u (byte %zu)", c->f->path, (int)v->key.len,
                       v->key.ptr, type, at);
    *out = (RpGgufType)type;
    return RP_OK;
}

/* One key and its value. A scalar is an array of one element; arrays of arrays are not supported. */
static RpStatus take_value(Cursor *c, RpGgufValue *v) {
    RP_TRY(take_name(c, "the key of a value", &v->key));
    RP_TRY(take_type(c, v, &v->type));
    v->n         = 1;
    v->elem_type = v->type;
    if (v->type == RP_GGUF_ARRAY) {
        RP_TRY(take_type(c, v, &v->elem_type));
        RP_TRY(take_u64(c, "the length of an array", &v->n));
        if (v->elem_type == RP_GGUF_ARRAY)
            return rp_fail(RP_E_UNSUPPORTED, "%s: %.*s is an array of arrays", c->f->path, (int)v->key.len, v->key.ptr);
    }
    return take_elements(c, v);
}

/* ---- tensors ---- */

static bool block_of_custom(RpGgufTensor *t, uint64_t *elems, uint64_t *bytes) {
    const RpDtypeInfo *info = rp_custom_of_gguf(t->gguf_type, &t->view.dtype);
    if (info == NULL) return false;
    t->known = true, *elems = (uint64_t)info->block_elems, *bytes = (uint64_t)info->block_bytes;
    return true;
}

/* Elements and bytes of a block. False for a type number that no table knows (I12). */
static bool block_of(RpGgufTensor *t, uint64_t *elems, uint64_t *bytes) {
    switch ((int64_t)t->gguf_type) {
#define X(ID, name, n_elems, n_bytes, gguf)                                                                            \
    case gguf:                                                                                                         \
        t->known = true, t->view.dtype = RP_##ID, *elems = n_elems, *bytes = n_bytes;                                  \
        return true;
        RP_DTYPES(X)
#undef X
#define X(NAME, n_elems, n_bytes, gguf)                                                                                \
    case gguf:                                                                                                         \
        *elems = n_elems, *bytes = n_bytes;                                                                            \
        return true;
        RP_FOREIGN_TYPES(X)
#undef X
    default:
        return block_of_custom(t, elems, bytes);
    }
}

static RpStatus fail_tensor(const Cursor *c, const RpGgufTensor *t, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: tensor %.*s: %s", c->f->path, (int)t->name.len, t->name.ptr, what);
}

/* Absent dimensions are 1. The product stays below 2^63 / 8, so that byte sizes and strides cannot
 * overflow. */
static RpStatus take_shape(Cursor *c, RpGgufTensor *t, uint64_t *n_elems) {
    uint32_t n_dims;
    RP_TRY(take_u32(c, "the rank of a tensor", &n_dims));
    if (n_dims < 1 || n_dims > RP_MAX_DIMS)
        return rp_fail(RP_E_FORMAT, "%s: tensor %.*s has %u dimensions, must be from 1 to %d", c->f->path,
                       (int)t->name.len, t->name.ptr, n_dims, RP_MAX_DIMS);
    *n_elems = 1;
    for (uint32_t i = 0; i < RP_MAX_DIMS; i++) {
        uint64_t ne = 1;
        if (i < n_dims) RP_TRY(take_u64(c, "a dimension of a tensor", &ne));
        if (ne < 1 || ne > (uint64_t)(INT64_MAX / 8) / *n_elems)
            return rp_fail(RP_E_FORMAT, "%s: tensor %.*s: dimension %u is %llu", c->f->path, (int)t->name.len,
                           t->name.ptr, i, (unsigned long long)ne);
        t->view.ne[i] = (int64_t)ne;
        *n_elems *= ne;
    }
    return RP_OK;
}

/* One entry of the tensor table. Its data is placed later, when the end of the table is known. */
static RpStatus take_tensor(Cursor *c, RpGgufTensor *t, uint64_t *offset) {
    uint64_t n_elems = 0, elems = 1, bytes = 1;
    RP_TRY(take_name(c, "the name of a tensor", &t->name));
    RP_TRY(take_shape(c, t, &n_elems));
    RP_TRY(take_u32(c, "the type of a tensor", &t->gguf_type));
    RP_TRY(take_u64(c, "the offset of a tensor", offset));
    if (!block_of(t, &elems, &bytes))
        return rp_fail(
            RP_E_FORMAT,
            "%s: tensor %.*s is of the unknown type %u: ggml has no type of this number, or has withdrawn it "
            "(forks of llama.cpp have types of their own; programs and plugins can register types)",
            c->f->path, (int)t->name.len, t->name.ptr, t->gguf_type);
    if ((uint64_t)t->view.ne[0] % elems != 0)
        return rp_fail(RP_E_FORMAT, "%s: tensor %.*s: rows of %lld elements are not whole blocks of %llu (%s)",
                       c->f->path, (int)t->name.len, t->name.ptr, (long long)t->view.ne[0], (unsigned long long)elems,
                       rp_gguf_type_name(t->gguf_type));
    if (n_elems / elems > (uint64_t)(INT64_MAX / 8) / bytes) return fail_tensor(c, t, "its size overflows");
    t->bytes = (size_t)(n_elems / elems * bytes);
    return RP_OK;
}

/* Points the view at the data. Readers borrow it until rp_gguf_close. */
static RpStatus place_tensor(const Cursor *c, RpGgufTensor *t, uint64_t offset) {
    const RpGgufFile *f = c->f;
    /* offset is any u64: compared with what is left, never added to a size first */
    if (offset % f->alignment != 0) return fail_tensor(c, t, "its data is not aligned");
    if (offset > f->bytes - f->data_at || t->bytes > f->bytes - f->data_at - offset)
        return rp_fail(RP_E_FORMAT,
                       "%s: tensor %.*s: %zu bytes of data at byte %llu go past the end of the file (%zu "
                       "bytes; truncated?)",
                       f->path, (int)t->name.len, t->name.ptr, t->bytes, (unsigned long long)(offset + f->data_at),
                       f->bytes);
    const unsigned char *data = f->data + f->data_at + offset;
    if (!t->known) return RP_OK;
    RpTensorView v = rp_view_contiguous(t->view.dtype, t->view.ne, NULL);
    memcpy(&v.data, &data, sizeof data); /* read only, as gguf.h says: RpTensorView has no const data */
    t->view = v;
    return RP_OK;
}

/* A tensor by the offset of its data. */
typedef struct Range {
    uint64_t offset;
    int64_t  tensor;
} Range;

static int by_offset(const void *a, const void *b) {
    const Range *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Forks of llama.cpp gave the numbers from NVFP4 on to layouts of other sizes. So the bytes from such a tensor to the
 * next one, or to the end of the file, must be those of the type, and at most the padding to the alignment more. An
 * offset past the end is left to place_tensor. `ranges` are sorted. */
static RpStatus check_sizes(const Cursor *c, const Range *ranges) {
    const RpGgufFile *f = c->f;
    for (int64_t i = 0; i < f->n_tensors; i++) {
        const RpGgufTensor *t      = &f->tensors[ranges[i].tensor];
        const uint64_t      padded = (t->bytes + f->alignment - 1) / f->alignment * f->alignment;
        const uint64_t      end    = i + 1 < f->n_tensors ? ranges[i + 1].offset : f->bytes - f->data_at;
        const uint64_t      has    = end - ranges[i].offset;
        if (t->gguf_type < FIRST_REUSED || ranges[i].offset > end || (has >= t->bytes && has <= padded)) continue;
        return rp_fail(
            RP_E_FORMAT,
            "%s: tensor %.*s of type %s (%u) takes %zu bytes, but the file has %llu for it: the file is of a "
            "fork of llama.cpp that uses this number for another layout, or damaged",
            f->path, (int)t->name.len, t->name.ptr, rp_gguf_type_name(t->gguf_type), t->gguf_type, t->bytes,
            (unsigned long long)has);
    }
    return RP_OK;
}

/* Compares neighbours. */
static RpStatus check_overlap(const Cursor *c, const Range *ranges) {
    for (int64_t i = 1; i < c->f->n_tensors; i++) {
        const RpGgufTensor *a = &c->f->tensors[ranges[i - 1].tensor], *b = &c->f->tensors[ranges[i].tensor];
        if (ranges[i - 1].offset + a->bytes > ranges[i].offset)
            return rp_fail(RP_E_FORMAT, "%s: tensors %.*s and %.*s overlap", c->f->path, (int)a->name.len, a->name.ptr,
                           (int)b->name.len, b->name.ptr);
    }
    return RP_OK;
}

/* ---- the file ---- */

/* A file of a Hugging Face model. */
static RpStatus of_directory(const RpGgufFile *f, const char *format) {
    const char *slash = strrchr(f->path, '/');
    const int   n     = slash != NULL && slash > f->path ? (int)(slash - f->path) : 0;
    return rp_fail(RP_E_FORMAT, "%s: this is a %s file: give the directory that it is in%s%.*s", f->path, format,
                   n > 0 ? ", " : "", n, f->path);
}

/* Names the formats that are often mistaken for GGUF. */
static RpStatus foreign_file(RpGgufFile *f) {
    RP_TRY(rp_gguf_refuse_foreign(f));
    if (f->bytes >= 4 && memcmp(f->data, "FUGG", 4) == 0)
        return rp_fail(RP_E_UNSUPPORTED, "%s: this is a big-endian GGUF file, which is not supported", f->path);
    /* safetensors: u64 length of the JSON header, then the header */
    if (f->bytes > 9 && f->data[8] == '{') return of_directory(f, "safetensors");
    if (f->data[0] == '{') return of_directory(f, "JSON");
    return rp_fail(RP_E_FORMAT, "%s: this is not a GGUF file (it does not begin with \"GGUF\")", f->path);
}

/* Version, and the counts, which are bounded by the size of the file. */
static RpStatus read_header(Cursor *c, uint64_t *n_tensors, uint64_t *n_values) {
    RpGgufFile *f = c->f;
    if (f->bytes == 0) return rp_fail(RP_E_FORMAT, "%s: the file is empty", f->path);
    RP_TRY(rp_gguf_read_in(f, f->bytes < MAX_MAGIC ? f->bytes : MAX_MAGIC));
    if (f->bytes < 4 || memcmp(f->data, "GGUF", 4) != 0) return foreign_file(f);
    c->at = 4;
    RP_TRY(take_u32(c, "the version", &f->version));
    /* versions 2 and 3 with their bytes swapped */
    if (f->version == 0x02000000u || f->version == 0x03000000u)
        return rp_fail(RP_E_UNSUPPORTED, "%s: this is a big-endian GGUF file, which is not supported", f->path);
    if (f->version != 2 && f->version != 3)
        return rp_fail(RP_E_UNSUPPORTED, "%s: GGUF version %u is not supported (2 and 3 are)", f->path, f->version);
    RP_TRY(take_u64(c, "the number of tensors", n_tensors));
    RP_TRY(take_u64(c, "the number of values", n_values));
    const size_t left = f->bytes - c->at;
    if (*n_values > left / MIN_VALUE_BYTES || *n_tensors > left / MIN_TENSOR_BYTES)
        return rp_fail(RP_E_FORMAT, "%s: %llu values and %llu tensors do not fit into %zu bytes (truncated?)", f->path,
                       (unsigned long long)*n_values, (unsigned long long)*n_tensors, f->bytes);
    return RP_OK;
}

/* The alignment is a value, so it is known before the tensor table is read. */
static RpStatus read_values(Cursor *c, uint64_t n) {
    RpGgufFile *f = c->f;
    f->values     = calloc((size_t)n + 1, sizeof *f->values);
    if (f->values == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for %llu values", f->path, (unsigned long long)n);
    for (; (uint64_t)f->n_values < n; f->n_values++) RP_TRY(take_value(c, &f->values[f->n_values]));
    uint32_t alignment = DEFAULT_ALIGNMENT;
    RP_TRY(rp_gguf_index_values(f));
    RP_TRY(rp_gguf_get_u32(f, "general.alignment", &alignment));
    if (alignment < 8 || alignment > 1u << 20 || (alignment & (alignment - 1)) != 0)
        return rp_fail(RP_E_FORMAT, "%s: general.alignment is %u, must be a power of two from 8 to 2^20", f->path,
                       alignment);
    f->alignment = alignment;
    return RP_OK;
}

/* The tensor table, then the place of each tensor. Names must be unique and data must not overlap. */
static RpStatus read_tensors(Cursor *c, uint64_t n) {
    RpGgufFile *f      = c->f;
    Range      *ranges = calloc((size_t)n + 1, sizeof *ranges);
    RpStatus    st     = RP_OK;
    f->tensors         = calloc((size_t)n + 1, sizeof *f->tensors);
    if (ranges == NULL || f->tensors == NULL)
        st = rp_fail(RP_E_NOMEM, "%s: out of memory for %llu tensors", f->path, (unsigned long long)n);
    for (; st == RP_OK && (uint64_t)f->n_tensors < n; f->n_tensors++) {
        ranges[f->n_tensors].tensor = f->n_tensors;
        st                          = take_tensor(c, &f->tensors[f->n_tensors], &ranges[f->n_tensors].offset);
    }
    if (st == RP_OK) {
        f->data_at = (c->at + f->alignment - 1) / f->alignment * f->alignment;
        if (f->data_at > f->bytes && n > 0) st = truncated(c, "the data of the tensors");
        if (f->data_at > f->bytes) f->data_at = f->bytes; /* no tensors: the padding may be missing */
        qsort(ranges, (size_t)f->n_tensors, sizeof *ranges, by_offset);
    }
    if (st == RP_OK) st = check_sizes(c, ranges);
    for (int64_t i = 0; i < f->n_tensors && st == RP_OK; i++)
        st = place_tensor(c, &f->tensors[ranges[i].tensor], ranges[i].offset);
    if (st == RP_OK) st = rp_gguf_index_tensors(f);
    if (st == RP_OK) st = check_overlap(c, ranges);
    free(ranges);
    return st;
}

/* Parameters of samplers borrow this text as a C string (rp_sampler_recommended). */
static RpStatus keep_samplers(RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "general.sampling.sequence");
    if (v == NULL || v->type != RP_GGUF_STRING) return RP_OK;
    const RpGgufString text = rp_gguf_string_at(v, 0);
    f->samplers             = strndup(text.ptr, text.len);
    return f->samplers != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory", f->path);
}

static RpStatus read_file(RpGgufFile *f) {
    Cursor   c         = {.f = f};
    uint64_t n_tensors = 0, n_values = 0;
    RP_TRY(read_header(&c, &n_tensors, &n_values));
    RP_TRY(read_values(&c, n_values));
    RP_TRY(keep_samplers(f));
    RP_TRY(read_tensors(&c, n_tensors));
    return rp_gguf_check_metadata(f);
}

/* Takes ownership of a mapping, also on failure. Nothing is parsed. */
static RpStatus new_file(const void *data, size_t bytes, const char *path, RpGgufMap map, RpGgufFile **out) {
    RpGgufFile *f = calloc(1, sizeof *f);
    if (f != NULL) *f = (RpGgufFile){.data = data, .bytes = bytes, .map = map, .path = strdup(path)};
    if (f == NULL || f->path == NULL) {
        rp_gguf_unmap(&map, bytes);
        free(f);
        return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    }
    f->read_bytes = map.data != NULL ? 0 : bytes;
    *out          = f;
    return RP_OK;
}

RpStatus rp_gguf_open_over(const void *data, size_t bytes, const char *path, RpGgufMap map, RpGgufFile **out) {
    RpGgufFile *f = NULL;
    RP_TRY(new_file(data, bytes, path, map, &f));
    const RpStatus st = read_file(f);
    if (st != RP_OK) {
        rp_gguf_close(f);
        return st;
    }
    *out = f;
    return RP_OK;
}

RpStatus rp_gguf_begin_one(const char *path, bool copy, RpGgufFile **out) {
    RpGgufMap map;
    size_t    bytes;
    RP_TRY(rp_gguf_map(path, copy, &map, &bytes));
    return rp_gguf_open_over(map.data, bytes, path, map, out);
}

RpStatus rp_gguf_open_part(const char *path, const char *shown, bool copy, RpGgufFile **out) {
    RpGgufMap map;
    size_t    bytes;
    RP_TRY(rp_gguf_map(path, copy, &map, &bytes));
    return new_file(map.data, bytes, shown, map, out);
}

void rp_gguf_close(RpGgufFile *f) {
    if (f == NULL) return;
    rp_gguf_unmap(&f->map, f->bytes);
    for (int i = 0; i < f->parts.n_files; i++) rp_gguf_close(f->parts.files[i]);
    if (f->parts.made != NULL) munmap(f->parts.made, f->parts.made_bytes);
    free(f->parts.files);
    free(f->parts.names);
    free(f->parts.metadata);
    free(f->values);
    free(f->tensors);
    free(f->samplers);
    free(f->vectors);
    free(f->value_index);
    free(f->tensor_index);
    free(f->path);
    free(f);
}
