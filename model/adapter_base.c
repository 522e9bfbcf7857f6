/* The description of an adapter's base, the model that it was trained on: one element for each tensor, in the order of
 * the file.
 *
 *     train.base.names      string [n]
 *     train.base.shapes     u64 [4 n]     the four dimensions of each, 1 where there are fewer
 *     train.base.types      u32 [n]       type numbers of GGUF
 *     train.base.checksums  u64 [n]       XXH64 of the data
 *
 * A resume needs the very same base. An adapter may be applied to another quantisation of it, so names and shapes alone
 * must agree then, and vectors that differ give a warning. Adapters of other programs have no such keys; only the
 * shapes of their matrices are checked. */
#include "model/adapter.h"

#include "base/xxh64.h"
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static const char key_names[] = "train.base.names", key_shapes[] = "train.base.shapes",
                  key_types[] = "train.base.types", key_sums[] = "train.base.checksums";

typedef struct Base {
    const char        *path; /* of the adapter */
    const RpGgufValue *names, *shapes, *types, *sums;
} Base;

static int shown(RpGgufString s) { return (int)(s.len < 96 ? s.len : 96); }

/* ---- writing ---- */

RpStatus rp_adapter_sum_base(const RpModel *m, uint64_t **out) {
    const int64_t n    = rp_gguf_n_tensors(m->file);
    uint64_t     *sums = calloc((size_t)n, sizeof *sums);
    *out               = sums;
    if (sums == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for checksums", rp_gguf_path(m->file));
    for (int64_t i = 0; i < n; i++) {
        const RpGgufTensor *t = rp_gguf_tensor(m->file, i);
        if (t->known && !rp_gguf_is_training(t->name)) sums[i] = rp_xxh64(t->view.data, t->bytes);
    }
    return RP_OK;
}

static int64_t count(const RpGgufFile *f) {
    int64_t n = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) n += !rp_gguf_is_training(rp_gguf_tensor(f, i)->name);
    return n;
}

/* The elements of one of the arrays. */
static void put_elements(GgufWriter *w, const RpGgufFile *f, const char *key, const uint64_t *sums) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (rp_gguf_is_training(t->name)) continue;
        if (key == key_names) rp_gguf_put_text(w, t->name.ptr, t->name.len);
        if (key == key_shapes) rp_gguf_put_element(w, t->view.ne, RP_MAX_DIMS * sizeof t->view.ne[0]);
        if (key == key_types) rp_gguf_put_element(w, &t->gguf_type, sizeof t->gguf_type);
        if (key == key_sums) rp_gguf_put_element(w, &sums[i], sizeof sums[i]);
    }
}

void rp_adapter_put_base(GgufWriter *w, const RpModel *m, const uint64_t *sums) {
    const struct {
        const char *key;
        RpGgufType  type;
        uint64_t    each;
    } arrays[] = {
        {key_names,  RP_GGUF_STRING, 1          },
        {key_shapes, RP_GGUF_U64,    RP_MAX_DIMS},
        {key_types,  RP_GGUF_U32,    1          },
        {key_sums,   RP_GGUF_U64,    1          },
    };
    for (int i = 0; i < 4; i++) {
        rp_gguf_put_array(w, arrays[i].key, arrays[i].type, arrays[i].each * (uint64_t)count(m->file));
        put_elements(w, m->file, arrays[i].key, sums);
    }
}

/* ---- comparing ---- */

static RpStatus find_array(const RpGgufFile *f, const char *key, RpGgufType type, uint64_t n, const RpGgufValue **out) {
    *out = rp_gguf_find(f, key);
    if (*out != NULL && (*out)->type == RP_GGUF_ARRAY && (*out)->elem_type == type && (n == 0 || (*out)->n == n))
        return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s: must be an array of %s for each tensor of the base", rp_gguf_path(f), key,
                   rp_gguf_value_type_name(type));
}

static RpStatus read_base(const RpGgufFile *f, Base *b) {
    *b = (Base){.path = rp_gguf_path(f)};
    RP_TRY(find_array(f, key_names, RP_GGUF_STRING, 0, &b->names));
    RP_TRY(find_array(f, key_shapes, RP_GGUF_U64, RP_MAX_DIMS * b->names->n, &b->shapes));
    RP_TRY(find_array(f, key_types, RP_GGUF_U32, b->names->n, &b->types));
    return find_array(f, key_sums, RP_GGUF_U64, b->names->n, &b->sums);
}

static const RpGgufTensor *find_tensor(const RpGgufFile *f, RpGgufString name, int64_t *at) {
    for (int64_t k = 0; k < rp_gguf_n_tensors(f); k++, ++*at) { /* in the same order, as a rule: *at goes on */
        if (*at >= rp_gguf_n_tensors(f)) *at = 0;
        const RpGgufTensor *t = rp_gguf_tensor(f, *at);
        if (t->name.len == name.len && memcmp(t->name.ptr, name.ptr, name.len) == 0) return t;
    }
    return NULL;
}

static RpStatus compare_shape(const Base *b, const RpGgufFile *f, uint64_t i, const RpGgufTensor *t) {
    int64_t        was[RP_MAX_DIMS];
    const int64_t *is = t->view.ne;
    memcpy(was, (const char *)b->shapes->data + i * sizeof was, sizeof was);
    if (memcmp(was, is, sizeof was) == 0) return RP_OK;
    return rp_fail(RP_E_SHAPE,
                   "%s is for another model: its base has tensor %.*s [%lld,%lld,%lld,%lld], %s has "
                   "[%lld,%lld,%lld,%lld]",
                   b->path, shown(t->name), t->name.ptr, (long long)was[0], (long long)was[1], (long long)was[2],
                   (long long)was[3], rp_gguf_path(f), (long long)is[0], (long long)is[1], (long long)is[2],
                   (long long)is[3]);
}

static RpStatus compare_data(const Base *b, const RpGgufFile *f, uint64_t i, const RpGgufTensor *t, uint64_t sum) {
    uint32_t type;
    uint64_t was;
    memcpy(&type, (const char *)b->types->data + i * sizeof type, sizeof type);
    memcpy(&was, (const char *)b->sums->data + i * sizeof was, sizeof was);
    if (type != t->gguf_type) {
        const char *name = rp_gguf_type_name(type);
        return rp_fail(
            RP_E_ARG, "%s was trained on a model whose tensor %.*s is %s, that of %s is %s: resume with the same model",
            b->path, shown(t->name), t->name.ptr, name != NULL ? name : "of an unknown type", rp_gguf_path(f),
            rp_gguf_type_name(t->gguf_type));
    }
    if (sum == was) return RP_OK;
    return rp_fail(RP_E_ARG,
                   "%s was trained on a model whose tensor %.*s has the checksum %016llx, that of %s has "
                   "%016llx: resume "
                   "with the same model",
                   b->path, shown(t->name), t->name.ptr, (unsigned long long)was, rp_gguf_path(f),
                   (unsigned long long)sum);
}

/* The file has all tensors of the base and further ones: names the first of these. */
static RpStatus find_further(const Base *b, const RpGgufFile *f) {
    for (int64_t k = 0; k < rp_gguf_n_tensors(f); k++) {
        const RpGgufTensor *t      = rp_gguf_tensor(f, k);
        const void         *cursor = b->names->data;
        uint64_t            i      = 0;
        if (rp_gguf_is_training(t->name)) continue;
        for (; i < b->names->n; i++) {
            const RpGgufString name = rp_gguf_next_string(&cursor);
            if (name.len == t->name.len && memcmp(name.ptr, t->name.ptr, name.len) == 0) break;
        }
        if (i == b->names->n)
            return rp_fail(RP_E_FORMAT, "%s is for another model: its base has no tensor %.*s, %s has one", b->path,
                           shown(t->name), t->name.ptr, rp_gguf_path(f));
    }
    return rp_fail(RP_E_FORMAT, "%s: %s names a tensor twice", b->path, key_names);
}

RpStatus rp_adapter_compare_base(const RpModel *m, const RpGgufFile *adapter, const uint64_t *sums) {
    Base        b;
    int64_t     at = 0;
    const void *cursor;
    if (rp_gguf_find(adapter, key_names) == NULL) return RP_OK;
    RP_TRY(read_base(adapter, &b));
    cursor = b.names->data;
    for (uint64_t i = 0; i < b.names->n; i++) {
        const RpGgufString  name = rp_gguf_next_string(&cursor);
        const RpGgufTensor *t    = find_tensor(m->file, name, &at);
        if (t == NULL)
            return rp_fail(RP_E_FORMAT, "%s is for another model: its base has tensor %.*s, %s has none", b.path,
                           shown(name), name.ptr, rp_gguf_path(m->file));
        RP_TRY(compare_shape(&b, m->file, i, t));
        if (sums != NULL && t->known) RP_TRY(compare_data(&b, m->file, i, t, sums[at]));
    }
    return b.names->n == (uint64_t)count(m->file) ? RP_OK : find_further(&b, m->file);
}

const RpGgufTensor *rp_adapter_other_vector(const RpModel *m, const RpGgufFile *adapter) {
    Base        b;
    int64_t     at = 0;
    const void *cursor;
    if (rp_gguf_find(adapter, key_names) == NULL || read_base(adapter, &b) != RP_OK) return NULL;
    cursor = b.names->data;
    for (uint64_t i = 0; i < b.names->n; i++) {
        const RpGgufTensor *t = find_tensor(m->file, rp_gguf_next_string(&cursor), &at);
        uint32_t            type;
        uint64_t            was;
        memcpy(&type, (const char *)b.types->data + i * sizeof type, sizeof type);
        memcpy(&was, (const char *)b.sums->data + i * sizeof was, sizeof was);
        if (t == NULL || !t->known || t->view.ne[1] > 1 || t->gguf_type != type) continue;
        if (rp_xxh64(t->view.data, t->bytes) != was) return t;
    }
    return NULL;
}
