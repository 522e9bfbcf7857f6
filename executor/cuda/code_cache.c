/* The cache of compiled kernels (code_cache.h). */
#include "executor/cuda/code_cache.h"

#include "base/hash.h"
#include "reprise/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRY = 256 << 20 };

typedef struct EntryHeader {
    char     magic[8];
    uint64_t cubin, ptx, symbol, key; /* bytes of each part */
    uint64_t check[2];                /* hash of the sizes above and of the parts */
    uint64_t unused;
} EntryHeader;
_Static_assert(sizeof(EntryHeader) == 64, "the cubin behind it is aligned");

static const char magic[8] = "RPCODE1";

static RpStatus failed(const char *path, const char *what) {
    return rp_fail(RP_E_IO, "%s: %s%s", path, what, strerror(errno));
}

/* Fixed keys: names must be those of other processes. */
static void hash128(const void *p, size_t n, uint64_t out[2]) {
    static const uint64_t keys[2][2] = {
        {0x7265707269736531u, 0x636f646563616368u},
        {0x7265707269736532u, 0x6b65726e656c7332u}
    };
    for (int i = 0; i < 2; i++) out[i] = rp_siphash(keys[i], p, n);
}

/* ---- folder ---- */

/* Only this user may write to what is loaded as code. */
static RpStatus check_owner(const char *path, const struct stat *s) {
    if (s->st_uid == geteuid() && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0) return RP_OK;
    return rp_fail(RP_E_IO, "%s: other users can write to it", path);
}

static RpStatus make_folder(const char *path) {
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return RP_OK;
    return failed(path, "");
}

RpStatus rp_code_cache_open(CodeCache *c) {
    const char *given = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat s;
    const bool  use_given = given != NULL && given[0] == '/'; /* the XDG rules: relative paths are ignored */
    if (!use_given && (home == NULL || home[0] != '/'))
        return rp_fail(RP_E_NOT_AVAILABLE, "neither XDG_CACHE_HOME nor HOME is set");
    int n =
        snprintf(c->folder, sizeof c->folder, "%s%s", use_given ? given : home, use_given ? "" : "/.cache");
    if (n >= (int)sizeof c->folder - 64)
        return rp_fail(RP_E_NOT_AVAILABLE, "the path of the cache is too long");
    RP_TRY(make_folder(c->folder));
    snprintf(c->folder + n, sizeof c->folder - (size_t)n, "/reprise");
    RP_TRY(make_folder(c->folder));
    if (stat(c->folder, &s) != 0) return failed(c->folder, "");
    if (!S_ISDIR(s.st_mode)) return rp_fail(RP_E_IO, "%s: is no folder", c->folder);
    return check_owner(c->folder, &s);
}

static void path_of(const CodeCache *c, const char *key, size_t key_bytes, char path[PATH_MAX + 64]) {
    uint64_t h[2];
    hash128(key, key_bytes, h);
    snprintf(path, PATH_MAX + 64, "%s/%016llx%016llx.code", c->folder, (unsigned long long)h[0],
             (unsigned long long)h[1]);
}

/* ---- reading ---- */

static RpStatus read_all(int fd, const char *path, char **memory, size_t *bytes) {
    struct stat s;
    if (fstat(fd, &s) != 0) return failed(path, "");
    RP_TRY(check_owner(path, &s));
    if (!S_ISREG(s.st_mode) || s.st_size < (off_t)sizeof(EntryHeader) || s.st_size > MAX_ENTRY)
        return rp_fail(RP_E_FORMAT, "%s: is no entry of the cache", path);
    *bytes  = (size_t)s.st_size;
    *memory = malloc(*bytes);
    if (*memory == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    for (size_t at = 0; at < *bytes;) {
        const ssize_t n = pread(fd, *memory + at, *bytes - at, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(path, "");
        if (n == 0) return rp_fail(RP_E_FORMAT, "%s: became shorter while it was read", path);
        at += (size_t)n;
    }
    return RP_OK;
}

/* The hash covers the sizes, then the parts. */
static void check_of(const EntryHeader *h, const char *parts, size_t bytes, uint64_t out[2]) {
    uint64_t sizes[6] = {h->cubin, h->ptx, h->symbol, h->key};
    hash128(parts, bytes, &sizes[4]);
    hash128(sizes, sizeof sizes, out);
}

static bool is_sound(const EntryHeader *h, const char *parts, size_t bytes) {
    const uint64_t sizes[] = {h->cubin, h->ptx, h->symbol, h->key};
    uint64_t       sum     = 0, check[2];
    if (memcmp(h->magic, magic, sizeof magic) != 0) return false;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] > bytes) return false;
        sum += sizes[i];
    }
    if (sum != bytes || h->ptx == 0 || h->symbol == 0) return false;
    check_of(h, parts, bytes, check);
    return memcmp(check, h->check, sizeof check) == 0 && parts[h->cubin + h->ptx - 1] == '\0' &&
           parts[h->cubin + h->ptx + h->symbol - 1] == '\0';
}

/* Takes the entry in b->memory apart. A sound entry with another key is a miss. */
static RpStatus take(CudaBinary *b, size_t bytes, const char *path, const char *key, size_t key_bytes,
                     bool *found) {
    EntryHeader h;
    char       *parts = b->memory + sizeof h;
    memcpy(&h, b->memory, sizeof h);
    if (!is_sound(&h, parts, bytes - sizeof h)) return rp_fail(RP_E_FORMAT, "%s: is corrupt", path);
    b->cubin_bytes  = h.cubin;
    b->ptx_bytes    = h.ptx;
    b->symbol_bytes = h.symbol;
    b->cubin        = h.cubin > 0 ? parts : NULL;
    b->ptx          = parts + h.cubin;
    b->symbol       = parts + h.cubin + h.ptx;
    *found          = h.key == key_bytes && memcmp(b->symbol + h.symbol, key, key_bytes) == 0;
    return RP_OK;
}

RpStatus rp_code_cache_read(const CodeCache *c, const char *key, size_t key_bytes, CudaBinary *out,
                            bool *found) {
    char   path[PATH_MAX + 64];
    size_t bytes = 0;
    *out         = (CudaBinary){0};
    *found       = false;
    path_of(c, key, key_bytes, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? RP_OK : failed(path, "");
    RpStatus st = read_all(fd, path, &out->memory, &bytes);
    close(fd);
    if (st == RP_OK) st = take(out, bytes, path, key, key_bytes, found);
    if (!*found) rp_cuda_binary_free(out);
    return st;
}

/* ---- writing ---- */

static bool put(FILE *f, const void *p, size_t n) { return n == 0 || fwrite(p, 1, n, f) == n; }

RpStatus rp_code_cache_write(const CodeCache *c, const char *key, size_t key_bytes, const CudaBinary *b) {
    char        path[PATH_MAX + 64];
    RpNewFile  *file;
    EntryHeader h = {
        .cubin = b->cubin_bytes, .ptx = b->ptx_bytes, .symbol = b->symbol_bytes, .key = key_bytes};
    const size_t bytes = b->cubin_bytes + b->ptx_bytes + b->symbol_bytes + key_bytes;
    if (bytes > MAX_ENTRY - sizeof h)
        return rp_fail(RP_E_IO, "%s: an entry of %zu bytes is too large", c->folder, bytes);
    char *parts = malloc(bytes);
    if (parts == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an entry of the cache");
    char *at = parts;
    if (b->cubin_bytes > 0) memcpy(at, b->cubin, b->cubin_bytes);
    memcpy(at += b->cubin_bytes, b->ptx, b->ptx_bytes);
    memcpy(at += b->ptx_bytes, b->symbol, b->symbol_bytes);
    memcpy(at += b->symbol_bytes, key, key_bytes);
    memcpy(h.magic, magic, sizeof magic);
    check_of(&h, parts, bytes, h.check);
    path_of(c, key, key_bytes, path);
    RpStatus st = rp_new_file_open(path, &file);
    if (st == RP_OK) {
        FILE *f = rp_new_file_stream(file);
        if (fchmod(fileno(f), 0600) != 0 || !put(f, &h, sizeof h) || !put(f, parts, bytes))
            st = failed(path, "");
        st = rp_new_file_close(file, st);
    }
    free(parts);
    return st;
}
