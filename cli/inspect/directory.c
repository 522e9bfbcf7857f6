/* Reads config.json and the headers of safetensors files (directory.h). */
#include "cli/inspect/directory.h"

#include "cli/common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_JSON = 100000000 /* bytes, as the reference implementation of safetensors */ };

/* ---- files ---- */

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the list of a directory"); }

/* A regular file. */
static RpStatus open_file(const char *folder, const char *name, FILE **out, size_t *bytes) {
    char        path[4096];
    struct stat info;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return RP_E_FORMAT;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return RP_E_FORMAT;
    const bool known   = fd >= 0 && fstat(fd, &info) == 0;
    const bool regular = known && S_ISREG(info.st_mode);
    *out               = regular ? fdopen(fd, "rb") : NULL;
    *bytes             = regular ? (size_t)info.st_size : 0;
    if (*out != NULL) return RP_OK;
    const int error = errno;
    if (fd >= 0) close(fd);
    return known && !regular ? RP_E_FORMAT : rp_fail(RP_E_IO, "%s: %s", path, strerror(error));
}

/* RP_E_FORMAT if the file ends before. */
static RpStatus read_bytes(FILE *f, const char *name, void *out, size_t n) {
    if (fread(out, 1, n, f) == n) return RP_OK;
    return ferror(f) ? rp_fail(RP_E_IO, "%s: %s", name, strerror(errno)) : RP_E_FORMAT;
}

/* Python writes NaN and Infinity, which are not JSON: they become strings. `out` has room for 2 n bytes. */
static size_t quote_numbers(const char *in, size_t n, char *out) {
    static const char *const names[] = {"-Infinity", "Infinity", "NaN"};
    char                    *at      = out;
    bool                     quoted  = false;
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        if (in[i] == '"') quoted = !quoted;
        for (int k = 0; k < 3 && !quoted && len == 0; k++)
            if (n - i >= strlen(names[k]) && memcmp(in + i, names[k], strlen(names[k])) == 0) len = strlen(names[k]);
        if (len > 0)
            at += sprintf(at, "\"%.*s\"", (int)len, in + i);
        else
            *at++ = in[i];
        if (len > 0) i += len - 1;
        if (quoted && in[i] == '\\' && i + 1 < n) *at++ = in[++i];
    }
    return (size_t)(at - out);
}

/* The next n bytes as a JSON object. */
static RpStatus read_object(FILE *f, const char *name, size_t n, json_t **out) {
    json_error_t error;
    *out = NULL;
    if (n > MAX_JSON) return RP_E_FORMAT;
    char *in = malloc(3 * n + 2);
    if (in == NULL) return no_memory();
    const RpStatus st = read_bytes(f, name, in, n);
    if (st == RP_OK) *out = json_loadb(in + n, quote_numbers(in, n, in + n), JSON_REJECT_DUPLICATES, &error);
    free(in);
    RP_TRY(st);
    if (*out == NULL && json_error_code(&error) == json_error_out_of_memory) return no_memory();
    return json_is_object(*out) ? RP_OK : RP_E_FORMAT;
}

/* ---- tensors ---- */

/* ne[0] is contiguous: the shape of the file, reversed. Dimensions beyond the fourth are multiplied into the last. */
static bool read_shape(const json_t *shape, int64_t ne[RP_MAX_DIMS]) {
    const size_t n     = json_array_size(shape);
    int64_t      total = 1;
    for (int i = 0; i < RP_MAX_DIMS; i++) ne[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const json_int_t size = json_integer_value(json_array_get(shape, n - 1 - i));
        if (size < 0 || (total > 0 && size > (INT64_MAX >> 3) / total)) return false;
        ne[i < RP_MAX_DIMS ? i : RP_MAX_DIMS - 1] *= size;
        total *= size;
    }
    return json_is_array(shape);
}

/* `room`: bytes of the data of all tensors. */
static bool read_tensor(const char *name, const json_t *entry, size_t room, ListedTensor *out) {
    const json_t    *type = json_object_get(entry, "dtype"), *offsets = json_object_get(entry, "data_offsets");
    const json_int_t from = json_integer_value(json_array_get(offsets, 0));
    const json_int_t to   = json_integer_value(json_array_get(offsets, 1));
    if (!json_is_string(type) || json_array_size(offsets) != 2 || from < 0 || to < from || (uint64_t)to > room)
        return false;
    *out = (ListedTensor){
        .name = {name, strlen(name)},
          .type = json_string_value(type), .bytes = (size_t)(to - from)
    };
    return read_shape(json_object_get(entry, "shape"), out->ne);
}

/* Adds the tensors of the header that the directory has got last. */
static RpStatus add_tensors(ListedDirectory *d, size_t room) {
    json_t       *header = d->headers[d->n_headers - 1], *entry;
    ListedTensor *grown  = realloc(d->tensors, (d->n_tensors + json_object_size(header) + 1) * sizeof *grown);
    const char   *name;
    if (grown == NULL) return no_memory();
    d->tensors = grown;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        if (!read_tensor(name, entry, room, &d->tensors[d->n_tensors])) return RP_E_FORMAT;
        d->n_tensors++;
    }
    return RP_OK;
}

/* 8 bytes: the length of the header, little endian; then the header, then the data. */
static RpStatus read_weights(ListedDirectory *d, const char *folder, const char *name) {
    size_t   bytes;
    uint64_t n;
    FILE    *f;
    json_t **grown = realloc(d->headers, (d->n_headers + 1) * sizeof(json_t *));
    if (grown == NULL) return no_memory();
    d->headers = grown;
    RP_TRY(open_file(folder, name, &f, &bytes));
    d->headers[d->n_headers++] = NULL;
    RpStatus st                = read_bytes(f, name, &n, sizeof n);
    if (st == RP_OK && n > bytes - sizeof n) st = RP_E_FORMAT;
    if (st == RP_OK) st = read_object(f, name, (size_t)n, &d->headers[d->n_headers - 1]);
    fclose(f);
    RP_TRY(st);
    d->bytes += bytes;
    return add_tensors(d, bytes - sizeof n - (size_t)n);
}

static int is_weights(const struct dirent *e) { return fnmatch("model*.safetensors", e->d_name, 0) == 0; }

RpStatus cli_directory_read(const char *path, ListedDirectory *out) {
    struct dirent **names = NULL;
    FILE           *config;
    *out = (ListedDirectory){0};
    RP_TRY(open_file(path, "config.json", &config, &out->bytes));
    RpStatus st = read_object(config, "config.json", out->bytes, &out->config);
    fclose(config);
    RP_TRY(st);
    const int n = scandir(path, &names, is_weights, alphasort);
    if (n < 0) return rp_fail(errno == ENOMEM ? RP_E_NOMEM : RP_E_IO, "%s: %s", path, strerror(errno));
    if (n == 0) st = RP_E_FORMAT;
    for (int i = 0; i < n; i++) {
        if (st == RP_OK) st = read_weights(out, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return st;
}

void cli_directory_free(ListedDirectory *d) {
    for (size_t i = 0; i < d->n_headers; i++) json_decref(d->headers[i]);
    json_decref(d->config);
    free(d->headers);
    free(d->tensors);
    *d = (ListedDirectory){0};
}

/* ---- config.json ---- */

static RpStatus print_value(const char *within, const char *key, const json_t *value, size_t shown) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY |
                                       JSON_ENSURE_ASCII); /* has no control characters */
    if (text == NULL) return no_memory();
    printf("  ");
    cli_print_escaped(stdout, within, strlen(within), SIZE_MAX);
    cli_print_escaped(stdout, key, strlen(key), SIZE_MAX);
    printf(" = %.*s%s\n", (int)shown, text, strlen(text) > shown ? "..." : "");
    free(text);
    return RP_OK;
}

RpStatus cli_directory_print_config(const ListedDirectory *d, bool json, size_t shown) {
    const char *key, *inner;
    json_t     *value, *member;
    if (json) {
        char *text = json_dumps(d->config, JSON_COMPACT | JSON_REAL_PRECISION(15));
        if (text == NULL) return no_memory();
        printf(",\"config\":%s", text);
        free(text);
        return RP_OK;
    }
    cli_list_heading("config.json");
    json_object_foreach(d->config, key, value) {
        if (strcmp(key, "text_config") != 0 || !json_is_object(value)) {
            RP_TRY(print_value("", key, value, shown));
            continue;
        }
        json_object_foreach(value, inner, member) RP_TRY(print_value("text_config.", inner, member, shown));
    }
    return RP_OK;
}
