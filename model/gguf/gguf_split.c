/* GGUF files that are cut into parts, as llama.cpp's gguf-split writes them. Each part is a GGUF file with tensors of
 * its own; the first has the metadata. Their keys are split.no (from 0), split.count and split.tensors.count. Opened,
 * they are one file, whose parts (RpGgufParts) are these:
 *
 *     NAME-00001-of-00003.gguf   values, tensors 0 .. 9    -> values without split.*, tensors 0 .. 29
 *     NAME-00002-of-00003.gguf           tensors 10 .. 19
 *     NAME-00003-of-00003.gguf           tensors 20 .. 29 */
#include "model/gguf/gguf_file.h"

#include "base/argument.h"
#include "base/files/split.h"

#include <stdlib.h>
#include <string.h>

typedef struct Place {
    uint32_t no, count, tensors; /* tensors: of all parts; 0: the file does not say it */
} Place;

static RpStatus place_of(const RpGgufFile *f, Place *out) {
    *out = (Place){0};
    RP_TRY(rp_gguf_get_u32(f, "split.no", &out->no));
    RP_TRY(rp_gguf_get_u32(f, "split.count", &out->count));
    return rp_gguf_get_u32(f, "split.tensors.count", &out->tensors);
}

/* The parts are found by the names that gguf-split gives. */
static RpStatus check_name(const RpGgufFile *first, Place p) {
    int no, count;
    if (p.no != 0)
        return rp_fail(RP_E_ARG, "%s: this is part %u of %u of a split file: open its first part", first->path,
                       p.no + 1, p.count);
    if (!rp_split_name(first->path, &no, &count) || no != 1 || (uint32_t)count != p.count)
        return rp_fail(
            RP_E_FORMAT,
            "%s: the file is the first of %u parts: its name must end with -00001-of-%05u.gguf, and those of the "
            "others with their numbers",
            first->path, p.count, p.count);
    return RP_OK;
}

/* Appends part `no`, from 0, which is owned then. */
static RpStatus open_part(RpGgufFile *whole, const char *name, Place first, int no, bool copy) {
    Place p;
    char *path = strdup(name);
    if (path == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", name);
    rp_split_rename(path, no + 1);
    RpGgufFile **out = &whole->parts.files[whole->parts.n_files];
    RpStatus     st  = rp_gguf_begin_one(path, copy, out);
    free(path);
    RP_TRY(st);
    whole->parts.n_files++;
    RP_TRY(place_of(*out, &p));
    if (p.no == (uint32_t)no && p.count == first.count) return RP_OK;
    return rp_fail(RP_E_FORMAT,
                   "%s: split.no and split.count are %u and %u, must be %d and %u: the file is a part of another",
                   (*out)->path, p.no, p.count, no, first.count);
}

static bool is_of_split(RpGgufString key) { return key.len > 6 && memcmp(key.ptr, "split.", 6) == 0; }

/* The values of the first part, and the tensors of all. */
static RpStatus join(RpGgufFile *whole, Place place) {
    RpGgufFile *first = whole->parts.files[0];
    int64_t     n     = 0;
    for (int i = 0; i < whole->parts.n_files; i++) n += whole->parts.files[i]->n_tensors;
    if (place.tensors != 0 && (int64_t)place.tensors != n)
        return rp_fail(RP_E_FORMAT, "%s: the %u parts have %lld tensors, and split.tensors.count is %u", whole->path,
                       place.count, (long long)n, place.tensors);
    whole->values  = calloc((size_t)first->n_values + 1, sizeof *whole->values);
    whole->tensors = calloc((size_t)n + 1, sizeof *whole->tensors);
    if (whole->values == NULL || whole->tensors == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for %lld tensors", whole->path, (long long)n);
    whole->samplers = first->samplers;
    first->samplers = NULL;
    for (int64_t i = 0; i < first->n_values; i++)
        if (!is_of_split(first->values[i].key)) whole->values[whole->n_values++] = first->values[i];
    for (int i = 0; i < whole->parts.n_files; i++) {
        const RpGgufFile *part = whole->parts.files[i];
        if (part->n_tensors > 0)
            memcpy(whole->tensors + whole->n_tensors, part->tensors, (size_t)part->n_tensors * sizeof *part->tensors);
        whole->n_tensors += part->n_tensors;
    }
    RP_TRY(rp_gguf_index_values(whole));
    return rp_gguf_index_tensors(whole);
}

static RpStatus open_all(RpGgufFile *whole, RpGgufFile *first, Place place, bool copy) {
    whole->parts.files = calloc(place.count, sizeof *whole->parts.files);
    whole->path        = strdup(first->path);
    if (whole->parts.files == NULL || whole->path == NULL) {
        rp_gguf_close(first);
        return rp_fail(RP_E_NOMEM, "%s: out of memory", whole->path != NULL ? whole->path : "a split file");
    }
    whole->parts.files[whole->parts.n_files++] = first;
    for (int i = 1; i < (int)place.count; i++) RP_TRY(open_part(whole, first->path, place, i, copy));
    for (int i = 0; copy && i < whole->parts.n_files; i++)
        RP_TRY(rp_gguf_read_in(whole->parts.files[i], whole->parts.files[i]->bytes));
    return join(whole, place);
}

/* Opens the other parts where *file is the first part of a split file, and makes *file the whole. On failure *file is
 * closed, and NULL. RP_E_ARG for another part than the first; RP_E_FORMAT; errors of opening the others. */
static RpStatus join_parts(RpGgufFile **file, bool copy) {
    RpGgufFile *first = *file, *whole;
    Place       place;
    RpStatus    st = place_of(first, &place);
    if (st == RP_OK && place.count <= 1) return RP_OK;
    if (st == RP_OK) st = check_name(first, place);
    whole = st == RP_OK ? calloc(1, sizeof *whole) : NULL;
    *file = NULL;
    if (whole == NULL) {
        if (st == RP_OK) st = rp_fail(RP_E_NOMEM, "%s: out of memory", first->path);
        rp_gguf_close(first);
        return st;
    }
    *whole = (RpGgufFile){.map       = {.fd = -1},
                          .data      = first->data,
                          .bytes     = first->bytes,
                          .data_at   = first->data_at,
                          .alignment = first->alignment,
                          .version   = first->version};
    st     = open_all(whole, first, place, copy);
    if (st == RP_OK)
        *file = whole;
    else
        rp_gguf_close(whole);
    return st;
}

RpStatus rp_gguf_begin_file(const char *path, bool copy, RpGgufFile **out) {
    RP_TRY(rp_gguf_begin_one(path, copy, out));
    return join_parts(out, copy);
}

/* RP_E_UNSUPPORTED for a part of a split file in memory, whose other parts cannot be found. */
static RpStatus refuse_part(const RpGgufFile *f) {
    Place place;
    RP_TRY(place_of(f, &place));
    if (place.count <= 1) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: part %u of %u of a split file cannot be opened from memory", f->path,
                   place.no + 1, place.count);
}

RpStatus rp_gguf_open_memory(const void *data, size_t bytes, const char *name, RpGgufFile **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(name, "name");
    if (bytes > 0) RP_NOT_NULL(data, "data");
    RP_TRY(rp_gguf_open_over(data, bytes, name, (RpGgufMap){.fd = -1}, out));
    const RpStatus st = refuse_part(*out);
    if (st == RP_OK) return RP_OK;
    rp_gguf_close(*out);
    *out = NULL;
    return st;
}
