/* Lookups in a GGUF file by key or tensor name, and typed reads of values. */
#include "model/gguf/gguf_file.h"

#include "base/argument.h"
#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef RpGgufString NameOf(const RpGgufFile *f, uint32_t i);

static RpGgufString value_name(const RpGgufFile *f, uint32_t i) { return f->values[i].key; }
static RpGgufString tensor_name(const RpGgufFile *f, uint32_t i) { return f->tensors[i].name; }

/* The slot of a name, or the free one where it would go. */
static size_t slot_of(const RpGgufFile *f, const uint32_t *index, size_t slots, NameOf *name_of, const char *p,
                      size_t len) {
    size_t s = (size_t)(rp_hash(p, len) % slots);
    for (; index[s] != 0; s = (s + 1) % slots) {
        const RpGgufString name = name_of(f, index[s] - 1);
        if (name.len == len && memcmp(name.ptr, p, len) == 0) break;
    }
    return s;
}

/* An index of n names, at most half full: slot = number + 1, or 0. */
static RpStatus build(const RpGgufFile *f, int64_t n, NameOf *name_of, const char *what, uint32_t **index,
                      size_t *slots) {
    if (n > INT32_MAX) return rp_fail(RP_E_FORMAT, "%s: too many names", f->path);
    *slots = 2 * (size_t)n + 1;
    *index = calloc(*slots, sizeof **index);
    if (*index == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for an index", f->path);
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        const RpGgufString name = name_of(f, i);
        const size_t       s    = slot_of(f, *index, *slots, name_of, name.ptr, name.len);
        if ((*index)[s] != 0)
            return rp_fail(RP_E_FORMAT, "%s: %s %.*s occurs twice", f->path, what, (int)name.len, name.ptr);
        (*index)[s] = i + 1;
    }
    return RP_OK;
}

RpStatus rp_gguf_index_values(RpGgufFile *f) {
    return build(f, f->n_values, value_name, "key", &f->value_index, &f->value_slots);
}

RpStatus rp_gguf_index_tensors(RpGgufFile *f) {
    return build(f, f->n_tensors, tensor_name, "tensor", &f->tensor_index, &f->tensor_slots);
}

const RpGgufValue *rp_gguf_find(const RpGgufFile *f, const char *key) {
    if (f == NULL || key == NULL) return NULL;
    const uint32_t i = f->value_index[slot_of(f, f->value_index, f->value_slots, value_name, key, strlen(key))];
    return i != 0 ? &f->values[i - 1] : NULL;
}

const RpGgufTensor *rp_gguf_find_tensor(const RpGgufFile *f, const char *name) {
    if (f == NULL || name == NULL) return NULL;
    const uint32_t i = f->tensor_index[slot_of(f, f->tensor_index, f->tensor_slots, tensor_name, name, strlen(name))];
    return i != 0 ? &f->tensors[i - 1] : NULL;
}

const char *rp_gguf_path(const RpGgufFile *f) { return f != NULL ? f->path : ""; }
uint32_t    rp_gguf_version(const RpGgufFile *f) { return f != NULL ? f->version : 0; }

size_t rp_gguf_bytes(const RpGgufFile *f) {
    size_t n = f != NULL && f->parts.n_files == 0 ? f->bytes : 0;
    for (int i = 0; f != NULL && i < f->parts.n_files; i++) n += f->parts.files[i]->bytes;
    return n;
}

int64_t rp_gguf_n_values(const RpGgufFile *f) { return f != NULL ? f->n_values : 0; }
int64_t rp_gguf_n_tensors(const RpGgufFile *f) { return f != NULL ? f->n_tensors : 0; }

RpStatus rp_gguf_need_order(const RpGgufFile *f, const char *what) {
    if (!f->parts.norm_rope) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: %s needs a GGUF file: the rows of q and k are in another order here (reprise quantize, or "
                   "rp_requantize, makes one)",
                   f->path, what);
}

const RpGgufValue *rp_gguf_value(const RpGgufFile *f, int64_t i) {
    return i >= 0 && i < rp_gguf_n_values(f) ? &f->values[i] : NULL;
}

const RpGgufTensor *rp_gguf_tensor(const RpGgufFile *f, int64_t i) {
    return i >= 0 && i < rp_gguf_n_tensors(f) ? &f->tensors[i] : NULL;
}

/* The lengths were checked at open, and metadata of a file is private memory since then. */
RpGgufString rp_gguf_next_string(const void **cursor) {
    if (cursor == NULL || *cursor == NULL) return (RpGgufString){"", 0};
    uint64_t len;
    memcpy(&len, *cursor, sizeof len);
    const char *p = (const char *)*cursor + sizeof len;
    *cursor       = p + len;
    return (RpGgufString){.ptr = p, .len = (size_t)len};
}

RpGgufString rp_gguf_string_at(const RpGgufValue *v, uint64_t i) {
    if (v == NULL || v->elem_type != RP_GGUF_STRING || i >= v->n) return (RpGgufString){"", 0};
    const void  *cursor = v->data;
    RpGgufString s      = rp_gguf_next_string(&cursor);
    while (i-- > 0) s = rp_gguf_next_string(&cursor);
    return s;
}

/* Elements are unaligned in the file, hence memcpy. */
#define NUMBER(Type)                                                                                                   \
    do {                                                                                                               \
        Type x;                                                                                                        \
        memcpy(&x, (const char *)v->data + (size_t)i * sizeof x, sizeof x);                                            \
        return (double)x;                                                                                              \
    } while (0)

double rp_gguf_number_at(const RpGgufValue *v, uint64_t i) {
    if (v == NULL || i >= v->n) return (double)NAN;
    switch (v->elem_type) {
    case RP_GGUF_U8:
    case RP_GGUF_BOOL:
        NUMBER(uint8_t);
    case RP_GGUF_I8:
        NUMBER(int8_t);
    case RP_GGUF_U16:
        NUMBER(uint16_t);
    case RP_GGUF_I16:
        NUMBER(int16_t);
    case RP_GGUF_U32:
        NUMBER(uint32_t);
    case RP_GGUF_I32:
        NUMBER(int32_t);
    case RP_GGUF_F32:
        NUMBER(float);
    case RP_GGUF_U64:
        NUMBER(uint64_t);
    case RP_GGUF_I64:
        NUMBER(int64_t);
    case RP_GGUF_F64:
        NUMBER(double);
    default:
        return (double)NAN;
    }
}

static RpStatus wrong_type(const RpGgufFile *f, const RpGgufValue *v, const char *wanted) {
    return rp_fail(RP_E_FORMAT, "%s: %.*s is of type %s, must be %s", f->path, (int)v->key.len, v->key.ptr,
                   rp_gguf_value_type_name(v->type), wanted);
}

/* *out is NULL where the key is absent. A string or an array is an error. */
static RpStatus find_number(const RpGgufFile *f, const char *key, const char *wanted, const RpGgufValue **out) {
    *out = rp_gguf_find(f, key);
    if (*out != NULL && ((*out)->type == RP_GGUF_STRING || (*out)->type == RP_GGUF_ARRAY))
        return wrong_type(f, *out, wanted);
    return RP_OK;
}

RpStatus rp_gguf_get_u32(const RpGgufFile *f, const char *key, uint32_t *out) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(key, "key");
    RP_NOT_NULL(out, "out");

    const RpGgufValue *v;
    RP_TRY(find_number(f, key, "a whole number", &v));
    if (v == NULL) return RP_OK;
    const double x = rp_gguf_number_at(v, 0);
    if (!(x >= 0.0 && x <= 4294967295.0) || x != floor(x) || v->type == RP_GGUF_BOOL)
        return rp_fail(RP_E_FORMAT, "%s: %s is %g, must be a whole number from 0 to 2^32-1", f->path, key, x);
    *out = (uint32_t)x;
    return RP_OK;
}

RpStatus rp_gguf_get_f32(const RpGgufFile *f, const char *key, float *out) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(key, "key");
    RP_NOT_NULL(out, "out");

    const RpGgufValue *v;
    RP_TRY(find_number(f, key, "a number", &v));
    if (v != NULL) *out = (float)rp_gguf_number_at(v, 0);
    return RP_OK;
}

RpStatus rp_gguf_get_bool(const RpGgufFile *f, const char *key, bool *out) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(key, "key");
    RP_NOT_NULL(out, "out");

    const RpGgufValue *v = rp_gguf_find(f, key);
    if (v == NULL) return RP_OK;
    if (v->type != RP_GGUF_BOOL) return wrong_type(f, v, "a bool");
    *out = rp_gguf_number_at(v, 0) != 0.0;
    return RP_OK;
}

RpStatus rp_gguf_get_string(const RpGgufFile *f, const char *key, RpGgufString *out) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(key, "key");
    RP_NOT_NULL(out, "out");

    const RpGgufValue *v = rp_gguf_find(f, key);
    if (v == NULL) return RP_OK;
    if (v->type != RP_GGUF_STRING) return wrong_type(f, v, "a string");
    *out = rp_gguf_string_at(v, 0);
    return RP_OK;
}

const char *rp_gguf_find_bytes(const RpGgufFile *f, const void *data, size_t *offset) {
    const uintptr_t at = (uintptr_t)data, start = (uintptr_t)f->data;
    for (int i = 0; i < f->parts.n_files; i++) {
        const char *path = rp_gguf_find_bytes(f->parts.files[i], data, offset);
        if (path != NULL) return path;
    }
    if (f->parts.n_files > 0 || at < start || at - start >= f->bytes) return NULL;
    *offset = at - start;
    return f->path;
}
