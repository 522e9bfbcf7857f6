/* Importance matrices of before GGUF. All numbers are little endian, i32 but for the values:
 *
 *     entries, then for each: length of the name, name, calls, number of values, values f32
 *     chunks, length of the name of the text, name                                 from 2024 on
 *
 * The values are sums over the calls of the mean squares of columns. Data after the entries is not needed. */
#include "model/convert/importance_dat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_NAME = 120, LEAST_ENTRY = 4 * 4 + 1, ALIGNMENT = 32, GGUF_VERSION = 3, GGUF_F32 = 0 };

typedef struct Dat {
    const char *path;
    char       *data;
    size_t      bytes, at;
    int32_t     n;
} Dat;

typedef struct Entry {
    const char *name, *values;
    int32_t     length, calls, n;
} Entry;

/* The output. Without memory only its size is counted. */
typedef struct Out {
    char  *data;
    size_t n;
} Out;

static int open_regular(const char *path, struct stat *info) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || (fstat(fd, info) == 0 && S_ISREG(info->st_mode))) return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

bool rp_importance_is_dat(const char *path) {
    struct stat info;
    char        magic[4] = {0};
    const int   fd       = open_regular(path, &info);
    if (fd < 0) return false;
    const bool all = read(fd, magic, sizeof magic) == (ssize_t)sizeof magic;
    close(fd);
    return all && memcmp(magic, "GGUF", sizeof magic) != 0;
}

static RpStatus read_file(Dat *d) {
    struct stat info;
    const int   fd   = open_regular(d->path, &info);
    size_t      done = 0;
    ssize_t     got  = 1;
    if (fd < 0) return rp_fail(RP_E_IO, "%s: %s", d->path, strerror(errno));
    d->bytes = (size_t)info.st_size;
    d->data  = malloc(d->bytes + 1);
    while (d->data != NULL && got > 0 && done < d->bytes) {
        got = read(fd, d->data + done, d->bytes - done);
        done += got > 0 ? (size_t)got : 0;
    }
    const int error = got < 0 ? errno : 0;
    close(fd);
    d->bytes = done; /* a file that has become shorter ends there */
    if (d->data == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
    return error == 0 ? RP_OK : rp_fail(RP_E_IO, "%s: %s", d->path, strerror(error));
}

static bool take(Dat *d, int32_t *out) {
    if (d->bytes - d->at < sizeof *out) return false;
    memcpy(out, d->data + d->at, sizeof *out);
    d->at += sizeof *out;
    return true;
}

static bool take_bytes(Dat *d, int32_t n, size_t size, const char **out) {
    if (n < 1 || (size_t)n > (d->bytes - d->at) / size) return false;
    *out = d->data + d->at;
    d->at += (size_t)n * size;
    return true;
}

static RpStatus next(Dat *d, int32_t i, Entry *e) {
    const size_t at = d->at;
    if (take(d, &e->length) && e->length <= LONGEST_NAME && take_bytes(d, e->length, 1, &e->name) &&
        take(d, &e->calls) && e->calls >= 0 && take(d, &e->n) && take_bytes(d, e->n, sizeof(float), &e->values))
        return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: entry %d of %d at byte %zu of %zu is damaged or cut off", d->path, i + 1, d->n, at,
                   d->bytes);
}

static void put(Out *out, const void *data, size_t n) {
    if (out->data != NULL) memcpy(out->data + out->n, data, n);
    out->n += n;
}

static void put_u32(Out *out, uint32_t v) { put(out, &v, sizeof v); }
static void put_u64(Out *out, uint64_t v) { put(out, &v, sizeof v); }

static void align(Out *out) {
    static const char zeros[ALIGNMENT];
    put(out, zeros, (ALIGNMENT - out->n % ALIGNMENT) % ALIGNMENT);
}

static uint64_t aligned(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* One row of the table of tensors: a vector of n f32. Returns where the data of the next one begins. */
static uint64_t put_row(Out *out, const Entry *e, const char *end, int32_t n, uint64_t offset) {
    put_u64(out, (uint64_t)e->length + strlen(end));
    put(out, e->name, (size_t)e->length);
    put(out, end, strlen(end));
    put_u32(out, 1);
    put_u64(out, (uint64_t)n);
    put_u32(out, GGUF_F32);
    put_u64(out, offset);
    return aligned(offset + (uint64_t)n * sizeof(float));
}

static RpStatus put_gguf(Dat *d, Out *out) {
    uint64_t offset = 0;
    Entry    e;
    put(out, "GGUF", 4);
    put_u32(out, GGUF_VERSION);
    put_u64(out, 2 * (uint64_t)d->n);
    put_u64(out, 0);
    d->at = sizeof(int32_t);
    for (int32_t i = 0; i < d->n; i++) {
        RP_TRY(next(d, i, &e));
        offset = put_row(out, &e, ".in_sum2", e.n, offset);
        offset = put_row(out, &e, ".counts", 1, offset);
    }
    align(out);
    d->at = sizeof(int32_t);
    for (int32_t i = 0; i < d->n; i++) {
        RP_TRY(next(d, i, &e));
        put(out, e.values, (size_t)e.n * sizeof(float));
        align(out);
        put(out, &(float){(float)e.calls}, sizeof(float));
        align(out);
    }
    return RP_OK;
}

static RpStatus convert(Dat *d, Out *out) {
    RP_TRY(read_file(d));
    if (!take(d, &d->n) || d->n < 1 || (size_t)d->n > d->bytes / LEAST_ENTRY)
        return rp_fail(RP_E_FORMAT, "%s: this is no importance matrix: neither GGUF nor a .dat of llama-imatrix",
                       d->path);
    RP_TRY(put_gguf(d, out));
    out->data = malloc(out->n);
    out->n    = 0;
    return out->data != NULL ? put_gguf(d, out) : rp_fail(RP_E_NOMEM, "%s: out of memory", d->path);
}

RpStatus rp_importance_read_dat(const char *path, char **gguf, size_t *bytes) {
    Dat            d   = {.path = path};
    Out            out = {0};
    const RpStatus st  = convert(&d, &out);
    free(d.data);
    if (st != RP_OK) free(out.data);
    *gguf  = st == RP_OK ? out.data : NULL;
    *bytes = out.n;
    return st;
}
