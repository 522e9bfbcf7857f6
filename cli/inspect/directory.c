/* Reads config.json and the headers of safetensors files (directory.h). */
#include "cli/inspect/directory.h"

#include "cli/common.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_JSON = 100000000 /* bytes, as the reference implementation of safetensors */ };

/* ---- files ---- */

/* A regular file; NULL: there is none. */
static FILE *open_file(const char *folder, const char *name, size_t *bytes) {
    char        path[4096];
    struct stat info;
    FILE       *f = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) f = fdopen(fd, "rb");
    if (f == NULL) close(fd);
    *bytes = (size_t)info.st_size;
    return f;
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

/* The next n bytes as a JSON object; NULL: they are none. */
static json_t *read_object(FILE *f, size_t n) {
    char   *in = n <= MAX_JSON ? malloc(3 * n + 2) : NULL, *quoted = in != NULL ? in + n : NULL;
    json_t *j = NULL;
    if (in != NULL && fread(in, 1, n, f) == n)
        j = json_loadb(quoted, quote_numbers(in, n, quoted), JSON_REJECT_DUPLICATES, NULL);
    free(in);
    if (json_is_object(j)) return j;
    json_decref(j);
    return NULL;
}

/* ---- tensors ---- */

/* ne[0] is contiguous: the shape of the file, reversed. Dimensions beyond the fourth are multiplied into the last. */
static bool read_shape(const json_t *shape, int64_t ne[RP_MAX_DIMS]) {
    const size_t n     = json_array_size(shape);
    int64_t      total = 1;
    for (int i = 0; i < RP_MAX_DIMS; i++) ne[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const json_int_t size = json_integer_value(json_array_get(shape, n - 1 - i));
        if (size < 1 || size > (INT64_MAX >> 3) / total) return false;
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

/* Adds the tensors of a header, which the directory owns from then on. */
static bool add_header(ListedDirectory *d, json_t *header, size_t room) {
    const char   *name;
    json_t       *entry;
    json_t      **headers = realloc(d->headers, (d->n_headers + 1) * sizeof(json_t *));
    ListedTensor *tensors = realloc(d->tensors, (d->n_tensors + json_object_size(header) + 1) * sizeof *tensors);
    if (headers != NULL) d->headers = headers;
    if (tensors != NULL) d->tensors = tensors;
    if (headers == NULL || tensors == NULL) {
        json_decref(header);
        return false;
    }
    d->headers[d->n_headers++] = header;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        if (!read_tensor(name, entry, room, &d->tensors[d->n_tensors++])) return false;
    }
    return true;
}

/* 8 bytes: the length of the header, little endian; then the header, then the data. */
static bool read_weights(ListedDirectory *d, const char *folder, const char *name) {
    size_t   bytes;
    uint64_t n;
    json_t  *header = NULL;
    FILE    *f      = open_file(folder, name, &bytes);
    if (f != NULL && fread(&n, 1, sizeof n, f) == sizeof n && n <= bytes - sizeof n) header = read_object(f, (size_t)n);
    if (f != NULL) fclose(f);
    if (header == NULL) return false;
    d->bytes += bytes;
    return add_header(d, header, bytes - sizeof n - (size_t)n);
}

static int is_weights(const struct dirent *e) { return fnmatch("model*.safetensors", e->d_name, 0) == 0; }

bool cli_directory_read(const char *path, ListedDirectory *out) {
    struct dirent **names = NULL;
    *out                  = (ListedDirectory){0};
    FILE *config          = open_file(path, "config.json", &out->bytes);
    if (config == NULL) return false;
    out->config = read_object(config, out->bytes);
    fclose(config);
    const int n    = out->config != NULL ? scandir(path, &names, is_weights, alphasort) : -1;
    bool      good = n > 0;
    for (int i = 0; i < n; i++) {
        good = good && read_weights(out, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return good;
}

void cli_directory_free(ListedDirectory *d) {
    for (size_t i = 0; i < d->n_headers; i++) json_decref(d->headers[i]);
    json_decref(d->config);
    free(d->headers);
    free(d->tensors);
    *d = (ListedDirectory){0};
}

/* ---- config.json ---- */

static void print_value(const char *within, const char *key, const json_t *value, size_t shown) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII); /* has no control characters */
    printf("  ");
    cli_print_escaped(stdout, within, strlen(within), SIZE_MAX);
    cli_print_escaped(stdout, key, strlen(key), SIZE_MAX);
    printf(" = ");
    if (text != NULL) printf("%.*s%s", (int)shown, text, strlen(text) > shown ? "..." : "");
    printf("\n");
    free(text);
}

void cli_directory_print_config(const ListedDirectory *d, bool json, size_t shown) {
    const char *key, *inner;
    json_t     *value, *member;
    if (json) {
        printf(",\"config\":");
        json_dumpf(d->config, stdout, JSON_COMPACT);
        return;
    }
    cli_list_heading("config.json");
    json_object_foreach(d->config, key, value) {
        if (strcmp(key, "text_config") != 0 || !json_is_object(value)) {
            print_value("", key, value, shown);
            continue;
        }
        json_object_foreach(value, inner, member) print_value("text_config.", inner, member, shown);
    }
}
