/* Files of weights (shards.h). */
#include "model/hf/shards.h"

#include "model/gguf/gguf_file.h"

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

static RpStatus open_index(HfDirectory *d, const Json *index, bool copy, HfShards *s) {
    const JsonNode *map = rp_json_get(index, index->nodes, "weight_map");
    if (map == NULL || map->type != JSON_OBJECT) return rp_fail(RP_E_FORMAT, "%s: weight_map is missing", index->path);
    RP_TRY(open_all(d, index, map, copy, s));
    RP_TRY(sort_tensors(d, s));
    return check_index(index, map, s);
}

RpStatus rp_hf_shards_open(HfDirectory *d, bool copy, HfShards *out) {
    Json index = {0};
    bool has_single, has_index;
    *out = (HfShards){0};
    RP_TRY(rp_hf_has(d, single, &has_single));
    if (has_single) {
        RP_TRY(open_shard(d, single, copy, out));
        return sort_tensors(d, out);
    }
    RP_TRY(rp_hf_has(d, index_name, &has_index));
    if (!has_index) return rp_fail(RP_E_IO, "%s: there is neither %s nor %s", d->path, single, index_name);
    RpStatus st = rp_hf_json(d, index_name, &index);
    if (st == RP_OK && index.nodes == NULL) st = rp_fail(RP_E_IO, "%s: %s is gone", d->path, index_name);
    if (st == RP_OK) st = open_index(d, &index, copy, out);
    rp_json_free(&index);
    return st;
}

void rp_hf_shards_free(HfShards *s) {
    for (size_t i = 0; i < s->n; i++) rp_safetensors_free(&s->files[i]);
    free(s->files);
    free(s->tensors);
    *s = (HfShards){0};
}
