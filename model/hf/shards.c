/* Files of weights (shards.h). */
#include "model/hf/shards.h"

#include "model/gguf/gguf_file.h"
#include "model/hf/hf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 1024 };

static const char single[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

static int compare(RpGgufString a, RpGgufString b) {
    const int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order != 0 || a.len == b.len ? order : a.len < b.len ? -1 : 1;
}

static int by_name(const void *a, const void *b) {
    const SafeTensor *const *x = a, *const *y = b;
    return compare((*x)->name, (*y)->name);
}

const SafeTensor *rp_hf_shards_find(const HfShards *s, RpGgufString name) {
    size_t low = 0, high = s->n_tensors;
    while (low < high) {
        const size_t mid   = low + (high - low) / 2;
        const int    order = compare(name, s->tensors[mid]->name);
        if (order == 0) return s->tensors[mid];
        if (order < 0) high = mid;
        if (order > 0) low = mid + 1;
    }
    return NULL;
}

static RpStatus open_shard(HfDirectory *d, const char *name, bool copy, HfShards *s) {
    RpGgufFile  *file;
    Safetensors *files = realloc(s->files, (s->n + 1) * sizeof *files);
    if (files == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
    s->files = files;
    RP_TRY(rp_hf_file(d, name, copy, &file));
    if (copy) RP_TRY(rp_gguf_read_in(file, file->bytes));
    return rp_safetensors_read(file, &s->files[s->n++]);
}

/* The file name of an entry, with an end. */
static RpStatus shard_name(const Json *index, const JsonNode *entry, char name[NAME_MAX + 1]) {
    const RpGgufString text = rp_json_string(index, entry);
    if (entry->type != JSON_STRING || text.len > NAME_MAX || memchr(text.ptr, '\0', text.len) != NULL)
        return rp_fail(RP_E_FORMAT, "%s: an entry of weight_map is no name of a file", index->path);
    memcpy(name, text.ptr, text.len);
    name[text.len]  = '\0';
    const char *end = strrchr(name, '.');
    if (strchr(name, '/') != NULL)
        return rp_fail(RP_E_FORMAT, "%s: '%.96s' is no name of a file in this directory", index->path, name);
    if (end != NULL && strcmp(end, ".safetensors") == 0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: '%.96s' is no name of a file of safetensors", index->path, name);
}

static const char *name_of(const Safetensors *s) { return strrchr(s->file->path, '/') + 1; }

static RpStatus open_all(HfDirectory *d, const Json *index, const JsonNode *map, bool copy, HfShards *s) {
    char name[NAME_MAX + 1];
    for (const JsonNode *x = rp_json_first(index, map); x != NULL; x = rp_json_next(index, map, x)) {
        size_t i = s->n; /* neighbours are mostly of the same file */
        RP_TRY(shard_name(index, x, name));
        while (i > 0 && strcmp(name_of(&s->files[i - 1]), name) != 0) i--;
        if (i > 0) continue;
        if (s->n == MAX_SHARDS)
            return rp_fail(RP_E_FORMAT, "%s: more than %d files of weights", index->path, MAX_SHARDS);
        RP_TRY(open_shard(d, name, copy, s));
    }
    return RP_OK;
}

static RpStatus sort_tensors(const HfDirectory *d, HfShards *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += s->files[i].n;
    s->tensors = malloc((n + 1) * sizeof *s->tensors);
    if (s->tensors == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu tensors", d->path, n);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->files[i].n; k++) s->tensors[s->n_tensors++] = &s->files[i].tensors[k];
    if (n > 0) qsort(s->tensors, n, sizeof *s->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&s->tensors[i - 1], &s->tensors[i]) == 0)
            return rp_fail(RP_E_FORMAT, "%s: tensor %.*s lies in two files", d->path,
                           (int)(s->tensors[i]->name.len < 96 ? s->tensors[i]->name.len : 96), s->tensors[i]->name.ptr);
    return RP_OK;
}

/* Each tensor of the index lies in the file that the index names. */
static RpStatus check_index(const Json *index, const JsonNode *map, const HfShards *s) {
    char name[NAME_MAX + 1];
    for (const JsonNode *x = rp_json_first(index, map); x != NULL; x = rp_json_next(index, map, x)) {
        const RpGgufString key = rp_json_key(index, x);
        const SafeTensor  *t   = rp_hf_shards_find(s, key);
        RP_TRY(shard_name(index, x, name));
        size_t i = 0;
        while (t != NULL && i < s->n && (t < s->files[i].tensors || t >= s->files[i].tensors + s->files[i].n)) i++;
        if (t == NULL || strcmp(name_of(&s->files[i]), name) != 0)
            return rp_fail(RP_E_FORMAT, "%s: tensor %.*s is not in %s", index->path, (int)(key.len < 96 ? key.len : 96),
                           key.ptr, name);
    }
    return RP_OK;
}

/* The tensors of a linear layer get names of their own. */
static RpStatus open_linear(HfDirectory *d, const char *folder, int number, bool copy, HfShards *s) {
    static const char *const names[][2] = {
        {"dense_2.weight", "dense_2.bias"},
        {"dense_3.weight", "dense_3.bias"}
    };
    static const RpGgufString parts[] = {
        {"linear.weight", 13},
        {"linear.bias",   11}
    };
    char name[HF_FOLDER_BYTES + sizeof single];
    bool found = false;
    snprintf(name, sizeof name, "%s/%s", folder, single);
    RP_TRY(open_shard(d, name, copy, s));
    const Safetensors *f = &s->files[s->n - 1];
    for (size_t i = 0; i < f->n; i++) {
        SafeTensor *t    = &f->tensors[i];
        const bool  bias = compare(t->name, parts[1]) == 0;
        if (!bias && compare(t->name, parts[0]) != 0)
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: tensor %.*s is not supported (there are linear.weight and linear.bias)", f->file->path,
                           (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr);
        t->name = (RpGgufString){names[number][bias], strlen(names[number][bias])};
        found   = found || !bias;
    }
    return found ? RP_OK : rp_fail(RP_E_FORMAT, "%s: tensor linear.weight is missing", f->file->path);
}

static RpStatus open_files(HfDirectory *d, const Json *index, char (*folders)[HF_FOLDER_BYTES], int n_folders,
                           bool copy, HfShards *s) {
    const JsonNode *map = index->nodes != NULL ? rp_json_get(index, index->nodes, "weight_map") : NULL;
    if (index->nodes == NULL) RP_TRY(open_shard(d, single, copy, s));
    if (index->nodes != NULL && (map == NULL || map->type != JSON_OBJECT))
        return rp_fail(RP_E_FORMAT, "%s: weight_map is missing", index->path);
    if (map != NULL) RP_TRY(open_all(d, index, map, copy, s));
    for (int i = 0; i < n_folders; i++) RP_TRY(open_linear(d, folders[i], i, copy, s));
    RP_TRY(sort_tensors(d, s));
    return map != NULL ? check_index(index, map, s) : RP_OK;
}

RpStatus rp_hf_shards_open(HfDirectory *d, char (*folders)[HF_FOLDER_BYTES], int n_folders, bool copy, HfShards *out) {
    Json     index = {0};
    bool     has_single, has_index;
    RpStatus st = RP_OK;
    *out        = (HfShards){0};
    RP_TRY(rp_hf_has(d, single, &has_single));
    if (!has_single) {
        RP_TRY(rp_hf_has(d, index_name, &has_index));
        if (!has_index)
            return rp_hf_refuse_contents(d, "there is neither model.safetensors nor model.safetensors.index.json");
        st = rp_hf_json(d, index_name, &index);
        if (st == RP_OK && index.nodes == NULL) st = rp_fail(RP_E_IO, "%s: %s is gone", d->path, index_name);
    }
    if (st == RP_OK) st = open_files(d, &index, folders, n_folders, copy, out);
    rp_json_free(&index);
    return st;
}

void rp_hf_shards_free(HfShards *s) {
    for (size_t i = 0; i < s->n; i++) rp_safetensors_free(&s->files[i]);
    free(s->files);
    free(s->tensors);
    *s = (HfShards){0};
}

RpStatus rp_hf_open_shards(HfModel *m) {
    if (m->has_shards) return RP_OK;
    m->has_shards = true;
    return rp_hf_shards_open(&m->dir, m->dense, m->n_dense, m->copy, &m->shards);
}
