/* The cache of compiled kernels (code_cache.h). */
#include "executor/cuda/code_cache.h"

#include "base/hash.h"
#include "base/option_number.h"
#include "reprise/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRY = 256 << 20, NAME_BYTES = 48 };

static const char suffix[] = ".code";

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
    long        mb;
    *c = (CodeCache){.fd = -1};
    RP_TRY(rp_option_number(RP_OPT_CODE_CACHE_MB, 1 << 20, &mb));
    c->limit             = (size_t)mb * 1000000;
    const bool use_given = given != NULL && given[0] == '/'; /* the XDG rules: relative paths are ignored */
    if (!use_given && (home == NULL || home[0] != '/'))
        return rp_fail(RP_E_NOT_AVAILABLE, "neither XDG_CACHE_HOME nor HOME is set");
    int n = snprintf(c->folder, sizeof c->folder, "%s%s", use_given ? given : home, use_given ? "" : "/.cache");
    if (n >= (int)sizeof c->folder - 64) return rp_fail(RP_E_NOT_AVAILABLE, "the path of the cache is too long");
    if (mb == 0) return rp_fail(RP_E_NOT_AVAILABLE, "%s=0", rp_option_name(RP_OPT_CODE_CACHE_MB));
    RP_TRY(make_folder(c->folder));
    snprintf(c->folder + n, sizeof c->folder - (size_t)n, "/reprise");
    RP_TRY(make_folder(c->folder));
    c->fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return rp_fail(RP_E_IO, "%s: is a symbolic link, or no folder", c->folder);
    if (c->fd < 0) return failed(c->folder, "");
    const RpStatus st = fstat(c->fd, &s) == 0 ? check_owner(c->folder, &s) : failed(c->folder, "");
    if (st != RP_OK) rp_code_cache_close(c);
    return st;
}

void rp_code_cache_close(CodeCache *c) {
    (void)close(c->fd);
    c->fd = -1;
}

static void name_of(const char *key, size_t key_bytes, char name[NAME_BYTES]) {
    uint64_t h[2];
    hash128(key, key_bytes, h);
    snprintf(name, NAME_BYTES, "%016llx%016llx%s", (unsigned long long)h[0], (unsigned long long)h[1], suffix);
}

static void path_of(const CodeCache *c, const char *name, char path[PATH_MAX + 64]) {
    snprintf(path, PATH_MAX + 64, "%s/%s", c->folder, name);
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
static RpStatus take(CudaBinary *b, size_t bytes, const char *path, const char *key, size_t key_bytes, bool *found) {
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

RpStatus rp_code_cache_read(const CodeCache *c, const char *key, size_t key_bytes, CudaBinary *out, bool *found) {
    char   path[PATH_MAX + 64], name[NAME_BYTES];
    size_t bytes = 0;
    *out         = (CudaBinary){0};
    *found       = false;
    name_of(key, key_bytes, name);
    path_of(c, name, path);
    const int fd = openat(c->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? RP_OK : failed(path, "");
    RpStatus st = read_all(fd, path, &out->memory, &bytes);
    (void)futimens(fd, NULL); /* where it fails, the entry only counts as older */
    close(fd);
    if (st == RP_OK) st = take(out, bytes, path, key, key_bytes, found);
    if (!*found) rp_cuda_binary_free(out);
    return st;
}

/* ---- writing ---- */

/* New files are opened by their path: it must still name the folder that was checked. */
static RpStatus same_folder(const CodeCache *c) {
    struct stat now, opened;
    if (lstat(c->folder, &now) != 0 || fstat(c->fd, &opened) != 0) return failed(c->folder, "");
    if (now.st_dev == opened.st_dev && now.st_ino == opened.st_ino) return RP_OK;
    return rp_fail(RP_E_IO, "%s: was replaced while it was in use", c->folder);
}

typedef struct Kept { /* a file of the folder */
    char            name[NAME_BYTES];
    struct timespec used;
    size_t          bytes;
} Kept;

static int by_use(const void *a, const void *b) {
    const Kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Lists the entries but `newest`. The caller frees *list, also on failure. */
static RpStatus list_entries(const CodeCache *c, DIR *d, const char *newest, Kept **list, size_t *n) {
    size_t      room = 0;
    struct stat s;
    for (const struct dirent *f; (f = readdir(d)) != NULL;) {
        const size_t len = strlen(f->d_name);
        if (len != 2 * 16 + sizeof suffix - 1 || strcmp(f->d_name + 2 * 16, suffix) != 0 ||
            strcmp(f->d_name, newest) == 0)
            continue;
        if (fstatat(c->fd, f->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue; /* removed by another process */
        if (*n == room) {
            Kept *grown = realloc(*list, (room = 2 * room + 64) * sizeof *grown);
            if (grown == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for its entries", c->folder);
            *list = grown;
        }
        Kept *k = &(*list)[(*n)++];
        *k      = (Kept){.used = s.st_mtim, .bytes = (size_t)s.st_size};
        memcpy(k->name, f->d_name, len + 1);
    }
    return RP_OK;
}

static RpStatus remove_from(const CodeCache *c, DIR *d, const char *newest) {
    struct stat s;
    Kept       *list = NULL;
    size_t      n = 0, total = fstatat(c->fd, newest, &s, AT_SYMLINK_NOFOLLOW) == 0 ? (size_t)s.st_size : 0;
    RpStatus    st = list_entries(c, d, newest, &list, &n);
    if (st == RP_OK && n > 0) qsort(list, n, sizeof *list, by_use);
    for (size_t i = 0; i < n; i++) total += list[i].bytes;
    for (size_t i = 0; st == RP_OK && i < n && total > c->limit; i++) {
        if (unlinkat(c->fd, list[i].name, 0) != 0 && errno != ENOENT) st = failed(c->folder, "");
        total -= list[i].bytes;
    }
    free(list);
    return st;
}

/* Removes the entries that were not used for the longest time until the limit is kept. */
static RpStatus remove_oldest(const CodeCache *c, const char *newest) {
    const int fd = openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR      *d  = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        const RpStatus st = failed(c->folder, "");
        if (fd >= 0) close(fd);
        return st;
    }
    const RpStatus st = remove_from(c, d, newest);
    (void)closedir(d);
    return st;
}

static bool put(FILE *f, const void *p, size_t n) { return n == 0 || fwrite(p, 1, n, f) == n; }

RpStatus rp_code_cache_write(const CodeCache *c, const char *key, size_t key_bytes, const CudaBinary *b) {
    char         path[PATH_MAX + 64], name[NAME_BYTES];
    RpNewFile   *file;
    EntryHeader  h     = {.cubin = b->cubin_bytes, .ptx = b->ptx_bytes, .symbol = b->symbol_bytes, .key = key_bytes};
    const size_t bytes = b->cubin_bytes + b->ptx_bytes + b->symbol_bytes + key_bytes;
    if (bytes > MAX_ENTRY - sizeof h || bytes + sizeof h > c->limit)
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
    name_of(key, key_bytes, name);
    path_of(c, name, path);
    RpStatus st = same_folder(c);
    if (st == RP_OK) st = rp_new_file_open(path, &file);
    if (st == RP_OK) {
        FILE *f = rp_new_file_stream(file);
        if (!put(f, &h, sizeof h) || !put(f, parts, bytes)) st = failed(path, "");
        /* It gets the permissions of the umask. Only this user enters the folder before they change. */
        st = rp_new_file_close(file, st);
        if (st == RP_OK && fchmodat(c->fd, name, 0600, 0) != 0) st = failed(path, "");
    }
    free(parts);
    return st == RP_OK ? remove_oldest(c, name) : st;
}
