/* Checksums of files and folders (reprise/file.h). */
#include "reprise/file.h"

#include "base/argument.h"
#include "base/files/split.h"
#include "base/xxh64.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

typedef struct Sum {
    RpXxh64        hash;
    uint64_t       bytes;
    unsigned char *piece; /* [PIECE] */
} Sum;

static RpStatus failed(const char *path) { return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno)); }

static RpStatus add_open(Sum *s, const char *path, int fd) {
    for (;;) {
        const ssize_t n = read(fd, s->piece, PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(path);
        if (n == 0) return RP_OK;
        rp_xxh64_add(&s->hash, s->piece, (size_t)n);
        s->bytes += (uint64_t)n;
    }
}

/* Regular files, and not hidden ones. Others have a kind that says so, or an unknown one. */
static bool may_count(const struct dirent *e) {
    return e->d_name[0] != '.' && (e->d_type == DT_REG || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef struct Names {
    char **items;
    size_t n, room;
} Names;

static bool add_name(Names *to, const char *name) {
    if (to->n == to->room) {
        const size_t room  = 2 * to->room + 16;
        char       **grown = realloc(to->items, room * sizeof *grown);
        if (grown == NULL) return false;
        to->items = grown;
        to->room  = room;
    }
    to->items[to->n] = strdup(name);
    return to->items[to->n] != NULL && ++to->n > 0;
}

static RpStatus list(DIR *d, const char *path, Names *out) {
    for (;;) {
        errno                  = 0;
        const struct dirent *e = readdir(d);
        if (e == NULL && errno != 0) return failed(path);
        if (e == NULL) break;
        if (may_count(e) && !add_name(out, e->d_name)) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    }
    if (out->n > 0) qsort(out->items, out->n, sizeof *out->items, by_name);
    return RP_OK;
}

/* Not blocking: the name may be that of a pipe. */
static RpStatus add_member(Sum *s, const char *path, int folder, const char *name) {
    struct stat info;
    const int   fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return rp_fail(RP_E_IO, "%s/%s: %s", path, name, strerror(errno));
    RpStatus st = fstat(fd, &info) == 0 ? RP_OK : failed(path);
    if (st == RP_OK && S_ISREG(info.st_mode)) {
        rp_xxh64_add(&s->hash, name, strlen(name) + 1);
        st = add_open(s, path, fd);
    }
    close(fd);
    return st;
}

/* Takes the descriptor. */
static RpStatus add_folder(Sum *s, const char *path, int fd) {
    Names names = {0};
    DIR  *d     = fdopendir(fd);
    if (d == NULL) {
        const RpStatus st = failed(path);
        close(fd);
        return st;
    }
    RpStatus st = list(d, path, &names);
    for (size_t i = 0; i < names.n && st == RP_OK; i++) st = add_member(s, path, dirfd(d), names.items[i]);
    for (size_t i = 0; i < names.n; i++) free(names.items[i]);
    free(names.items);
    closedir(d);
    return st;
}

static RpStatus add_path(Sum *s, const char *path) {
    struct stat info;
    const int   fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return failed(path);
    RpStatus st = fstat(fd, &info) == 0 ? RP_OK : failed(path);
    if (st == RP_OK && S_ISDIR(info.st_mode)) return add_folder(s, path, fd);
    if (st == RP_OK && !S_ISREG(info.st_mode)) st = rp_fail(RP_E_ARG, "%s is neither a file nor a folder", path);
    if (st == RP_OK) st = add_open(s, path, fd);
    close(fd);
    return st;
}

/* A file, a folder, or all parts of a split file, of which `path` is the first. */
static RpStatus add_parts(Sum *s, const char *path) {
    int no, count;
    RP_TRY(add_path(s, path));
    if (!rp_split_name(path, &no, &count) || no != 1 || count == 1) return RP_OK;
    char    *part = strdup(path);
    RpStatus st   = part != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    for (int i = 2; i <= count && st == RP_OK; i++) {
        rp_split_rename(part, i);
        st = add_path(s, part);
    }
    free(part);
    return st;
}

RpStatus rp_path_xxh64(const char *path, uint64_t *hash, uint64_t *bytes) {
    RP_NOT_NULL(hash, "hash");
    RP_NOT_NULL(bytes, "bytes");
    *hash = *bytes = 0;
    RP_NOT_NULL(path, "path");
    Sum s = {.piece = malloc(PIECE)};
    if (s.piece == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    rp_xxh64_begin(&s.hash);
    const RpStatus st = add_parts(&s, path);
    free(s.piece);
    RP_TRY(st);
    *hash  = rp_xxh64_end(&s.hash);
    *bytes = s.bytes;
    return RP_OK;
}
