/* Files of a directory (directory.h). */
#include "model/hf/directory.h"

#include "model/gguf/gguf_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

RpStatus rp_hf_directory_open(const char *path, HfDirectory *out) {
    static const char snapshots[] = "/snapshots";
    *out                          = (HfDirectory){.path = path, .real = realpath(path, NULL)};
    if (out->real == NULL) return rp_fail(errno == ENOMEM ? RP_E_NOMEM : RP_E_IO, "%s: %s", path, strerror(errno));
    const char  *revision = strrchr(out->real, '/');
    const size_t n = (size_t)(revision - out->real), len = sizeof snapshots - 1;
    if (n > len && memcmp(revision - len, snapshots, len) == 0) out->blobs = n - len;
    return RP_OK;
}

void rp_hf_directory_close(HfDirectory *d) {
    for (int i = 0; i < d->n_files; i++) rp_gguf_close(d->files[i]);
    free(d->files);
    free(d->real);
    *d = (HfDirectory){0};
}

/* Checks that it is FILE or FOLDER/FILE, and that neither part is empty or begins with a dot. */
static RpStatus check_name(const HfDirectory *d, const char *name) {
    const char  *slash = strchr(name, '/'), *last = slash != NULL ? slash + 1 : name;
    const size_t first = (size_t)(last - name);
    if (name[0] != '\0' && name[0] != '.' && name[0] != '/' && first <= NAME_MAX && last[0] != '\0' && last[0] != '.' &&
        strchr(last, '/') == NULL && strlen(last) <= NAME_MAX)
        return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: '%.96s' is no name of a file in this directory", d->path, name);
}

static char *joined(const char *directory, const char *name) {
    char *path = malloc(strlen(directory) + strlen(name) + 2);
    if (path != NULL) sprintf(path, "%s/%s", directory, name);
    return path;
}

/* Whether `real` lies in the directory, or among the blobs of its cache. */
static bool inside(const HfDirectory *d, const char *real) {
    static const char blobs[] = "/blobs/";
    const size_t      n       = strlen(d->real);
    if (strncmp(real, d->real, n) == 0 && (real[n] == '/' || n == 1)) return true;
    return d->blobs > 0 && strncmp(real, d->real, d->blobs) == 0 &&
           strncmp(real + d->blobs, blobs, sizeof blobs - 1) == 0;
}

RpStatus rp_hf_has(const HfDirectory *d, const char *name, bool *out) {
    struct stat info;
    char       *path = joined(d->real, name);
    *out             = false;
    if (path == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
    *out            = lstat(path, &info) == 0;
    const int error = errno;
    free(path);
    return *out || error == ENOENT || error == ENOTDIR ? RP_OK
                                                       : rp_fail(RP_E_IO, "%s/%s: %s", d->path, name, strerror(error));
}

static RpStatus keep(HfDirectory *d, RpGgufFile *file) {
    RpGgufFile **files = realloc(d->files, (size_t)(d->n_files + 1) * sizeof *files);
    if (files == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
    files[d->n_files++] = file;
    d->files            = files;
    return RP_OK;
}

/* `shown` names the file in errors, `real` is opened. */
static RpStatus open_file(HfDirectory *d, const char *shown, const char *real, bool copy, RpGgufFile **out) {
    RP_TRY(rp_gguf_open_part(real, shown, copy, out));
    const RpStatus st = keep(d, *out);
    if (st == RP_OK) return RP_OK;
    rp_gguf_close(*out);
    *out = NULL;
    return st;
}

RpStatus rp_hf_file(HfDirectory *d, const char *name, bool copy, RpGgufFile **out) {
    RP_TRY(check_name(d, name));
    char    *shown = joined(d->path, name), *path = joined(d->real, name), *real = NULL;
    RpStatus st = shown != NULL && path != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
    *out        = NULL;
    if (st == RP_OK && (real = realpath(path, NULL)) == NULL)
        st = rp_fail(errno == ENOMEM ? RP_E_NOMEM : RP_E_IO, "%s: %s", shown, strerror(errno));
    if (st == RP_OK && !inside(d, real)) st = rp_fail(RP_E_FORMAT, "%s: this link leads out of the directory", shown);
    if (st == RP_OK) st = open_file(d, shown, real, copy, out);
    free(shown);
    free(path);
    free(real);
    return st;
}

RpStatus rp_hf_text(HfDirectory *d, const char *name, RpGgufString *out) {
    RpGgufFile *file;
    bool        there;
    *out = (RpGgufString){"", 0};
    RP_TRY(check_name(d, name));
    RP_TRY(rp_hf_has(d, name, &there));
    if (!there) return RP_OK;
    RP_TRY(rp_hf_file(d, name, true, &file));
    if (file->bytes > JSON_MAX_BYTES)
        return rp_fail(RP_E_FORMAT, "%s: %zu bytes, at most %d are read", file->path, file->bytes, JSON_MAX_BYTES);
    RP_TRY(rp_gguf_refuse_foreign(file));
    RP_TRY(rp_gguf_read_in(file, file->bytes));
    *out = (RpGgufString){(const char *)file->data, file->bytes};
    return RP_OK;
}

static RpStatus read_json(HfDirectory *d, const char *name, JsonType root, const char *what, Json *out) {
    RpGgufString text;
    RP_TRY(rp_hf_text(d, name, &text));
    if (text.len == 0) return RP_OK;
    const char *path = d->files[d->n_files - 1]->path;
    RP_TRY(rp_json_read(path, text.ptr, text.len, out));
    if (out->nodes->type == root) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: this is no JSON %s", path, what);
}

RpStatus rp_hf_json(HfDirectory *d, const char *name, Json *out) {
    return read_json(d, name, JSON_OBJECT, "object", out);
}

RpStatus rp_hf_json_list(HfDirectory *d, const char *name, Json *out) {
    return read_json(d, name, JSON_ARRAY, "list", out);
}
