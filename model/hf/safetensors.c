/* The header of a safetensors file (safetensors.h). */
#include "model/hf/safetensors.h"

#include "model/gguf/gguf_file.h"
#include "reprise/quants.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100000000 /* as the reference implementation */, NAME_MAX_BYTES = 512 };

static const struct {
    const char *name;
    size_t      bytes;
    int         dtype;
} types[SAFE_TYPE_COUNT] = {
#define X(ID, name, bytes, dtype) [SAFE_##ID] = {name, bytes, dtype},
    SAFE_TYPES(X)
#undef X
};

const char *rp_safe_type_name(SafeType type) { return types[type].name; }
int         rp_safe_type_dtype(SafeType type) { return types[type].dtype; }

void rp_safe_to_f32(const SafeTensor *t, float *out) {
    _Alignas(8) unsigned char part[1024]; /* a header of odd length shifts all data, and f16 is read as uint16_t */
    const size_t              each = types[t->type].bytes, n = t->bytes / each;
    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < sizeof part / each ? n - i : sizeof part / each;
        memcpy(part, t->data + i * each, k * each);
        rp_dequantize_row((RpDtype)types[t->type].dtype, part, (int64_t)k, out + i);
    }
}

static RpStatus bad(const Safetensors *s, RpGgufString name, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: tensor %.*s: %s", s->file->path, (int)(name.len < 96 ? name.len : 96), name.ptr,
                   what);
}

static RpStatus read_type(const Safetensors *s, const JsonNode *node, SafeTensor *t) {
    const RpGgufString text = rp_json_string(&s->header, node);
    for (int i = 0; i < SAFE_TYPE_COUNT; i++)
        if (rp_json_is(&s->header, node, types[i].name)) {
            t->type = (SafeType)i;
            return RP_OK;
        }
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of the unknown type '%.*s'", s->file->path,
                   (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (int)(text.len < 32 ? text.len : 32),
                   text.ptr);
}

/* The product of the dimensions stays below 2^60, so that bytes and strides cannot overflow. Those beyond the fourth,
 * of convolutions that only images need, are multiplied into it. */
static RpStatus read_shape(const Safetensors *s, const JsonNode *shape, SafeTensor *t) {
    uint64_t n = 1, ne;
    if (shape == NULL || shape->type != JSON_ARRAY) return bad(s, t->name, "has no shape");
    t->n_dims = shape->n < INT_MAX ? (int)shape->n : INT_MAX;
    for (int i = 0; i < RP_MAX_DIMS; i++) t->ne[i] = 1;
    size_t at = shape->n;
    for (const JsonNode *x = rp_json_first(&s->header, shape); x != NULL; x = rp_json_next(&s->header, shape, x)) {
        if (!rp_json_u63(&s->header, x, &ne)) return bad(s, t->name, "a dimension is not a whole number");
        if (ne == 0) return bad(s, t->name, "a dimension is 0");
        if (ne > (UINT64_C(1) << 57) / n) return bad(s, t->name, "its size overflows");
        t->ne[--at < RP_MAX_DIMS ? at : RP_MAX_DIMS - 1] *= (int64_t)ne;
        n *= ne;
    }
    t->bytes = (size_t)n * types[t->type].bytes;
    return RP_OK;
}

static RpStatus read_offsets(const Safetensors *s, const JsonNode *offsets, size_t data_at, SafeTensor *t) {
    const size_t    room = s->file->bytes - data_at;
    uint64_t        from, to;
    const JsonNode *a = rp_json_first(&s->header, offsets);
    const JsonNode *b = a != NULL ? rp_json_next(&s->header, offsets, a) : NULL;
    if (offsets == NULL || offsets->type != JSON_ARRAY || offsets->n != 2 || !rp_json_u63(&s->header, a, &from) ||
        !rp_json_u63(&s->header, b, &to))
        return bad(s, t->name, "data_offsets are not two whole numbers");
    if (from > to || to - from != t->bytes) return bad(s, t->name, "shape and data_offsets differ in size");
    if (to > room)
        return rp_fail(RP_E_FORMAT,
                       "%s: tensor %.*s: its data end at byte %llu, past the end of the file (%zu bytes; truncated?)",
                       s->file->path, (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr,
                       (unsigned long long)to + data_at, s->file->bytes);
    t->data = s->file->data + data_at + from;
    return RP_OK;
}

static int by_place(const void *a, const void *b) {
    const SafeTensor *x = a, *y = b;
    return x->data < y->data ? -1 : x->data > y->data;
}

/* In the order of their data, each tensor begins where the one before ends. */
static RpStatus check_cover(Safetensors *s, size_t data_at) {
    const unsigned char *at = s->file->data + data_at, *end = s->file->data + s->file->bytes;
    qsort(s->tensors, s->n, sizeof *s->tensors, by_place);
    for (size_t i = 0; i < s->n; i++) {
        const SafeTensor *t = &s->tensors[i];
        if (t->data < at) return bad(s, t->name, "its data overlap with those of another tensor");
        if (t->data > at) return bad(s, t->name, "there is a gap in front of its data");
        at += t->bytes;
    }
    if (at == end) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %zu bytes behind the last tensor belong to none", s->file->path,
                   (size_t)(end - at));
}

static RpStatus read_tensor(Safetensors *s, const JsonNode *member, size_t data_at) {
    const Json *j = &s->header;
    SafeTensor *t = &s->tensors[s->n];
    t->name       = rp_json_key(j, member);
    if (t->name.len == 0 || t->name.len > NAME_MAX_BYTES || memchr(t->name.ptr, '\0', t->name.len) != NULL)
        return rp_fail(RP_E_FORMAT, "%s: a name of %zu bytes is no name of a tensor", s->file->path, t->name.len);
    if (member->type != JSON_OBJECT) return bad(s, t->name, "its entry is no object");
    RP_TRY(read_type(s, rp_json_get(j, member, "dtype"), t));
    RP_TRY(read_shape(s, rp_json_get(j, member, "shape"), t));
    RP_TRY(read_offsets(s, rp_json_get(j, member, "data_offsets"), data_at, t));
    s->n++;
    return RP_OK;
}

RpStatus rp_safetensors_read(RpGgufFile *file, Safetensors *out) {
    uint64_t header;
    *out = (Safetensors){.file = file};
    if (file->bytes < sizeof header)
        return rp_fail(RP_E_FORMAT, "%s: %zu bytes are no safetensors file (truncated?)", file->path, file->bytes);
    RP_TRY(rp_gguf_read_in(file, sizeof header));
    memcpy(&header, file->data, sizeof header);
    if (header > HEADER_MAX || header > file->bytes - sizeof header) {
        RP_TRY(rp_gguf_refuse_foreign(file));
        return rp_fail(RP_E_FORMAT, "%s: a header of %llu bytes does not fit into %zu bytes (truncated?)", file->path,
                       (unsigned long long)header, file->bytes);
    }
    const size_t data_at = sizeof header + (size_t)header;
    RP_TRY(rp_gguf_read_in(file, data_at));
    RP_TRY(rp_json_read(file->path, (const char *)file->data + sizeof header, (size_t)header, &out->header));
    const JsonNode *root = out->header.nodes;
    if (root->type != JSON_OBJECT) return rp_fail(RP_E_FORMAT, "%s: the header is no JSON object", file->path);
    out->tensors = calloc((size_t)root->n + 1, sizeof *out->tensors);
    if (out->tensors == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %u tensors", file->path, root->n);
    for (const JsonNode *m = rp_json_first(&out->header, root); m != NULL; m = rp_json_next(&out->header, root, m)) {
        const RpGgufString key = rp_json_key(&out->header, m);
        if (key.len == 12 && memcmp(key.ptr, "__metadata__", 12) == 0) continue;
        RP_TRY(read_tensor(out, m, data_at));
    }
    return check_cover(out, data_at);
}

void rp_safetensors_free(Safetensors *s) {
    rp_json_free(&s->header);
    free(s->tensors);
    *s = (Safetensors){0};
}
