/* __wrap_X is called in place of X and __real_X is X itself (ld --wrap). Bytes that are written are found by reading
 * the files again, as stdio writes by calls within the C library: what happened between two calls is one change, of
 * which states.c loses any part. */
#include "tests/power/power.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* REAL(result, function, parameters): declares both functions and begins the definition of __wrap_function. */
#define WRAP(result, function, ...)                                                                                    \
    result __real_##function(__VA_ARGS__);                                                                             \
    result __wrap_##function(__VA_ARGS__);                                                                             \
    result __wrap_##function(__VA_ARGS__)

enum { MAX_FILES = 256, MAX_OPS = 4096 };

/* A file that was in the folder at some time. It stays open, so that its inode is not used again. */
typedef struct Recorded {
    ino_t  inode;
    int    fd;
    char  *data; /* as last seen */
    size_t n;
} Recorded;

static struct {
    bool     on;
    PowerBug bug;
    char     folder[PATH_MAX];
    PowerOp  ops[MAX_OPS];
    Recorded files[MAX_FILES];
    int      n_ops, n_initial, n_files;
} record;

static void need(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "power: %s: %s\n", what, strerror(errno));
    abort();
}

FILE *__real_fopen(const char *path, const char *mode);
int   __real_fclose(FILE *f);
int   __real_open(const char *path, int flags, ...);
int   __wrap_open(const char *path, int flags, ...);

static void copy_name(char out[POWER_NAME], const char *name) {
    need(strlen(name) < POWER_NAME, name);
    strcpy(out, name);
}

static PowerOp *add(PowerKind kind, int file, const char *from, const char *to) {
    need(record.n_ops < MAX_OPS, "too many operations");
    PowerOp *op = &record.ops[record.n_ops++];
    *op         = (PowerOp){.kind = kind, .file = file};
    copy_name(op->from, from);
    copy_name(op->to, to);
    return op;
}

/* The path within the folder; NULL if it is outside. */
static const char *inside(const char *path) {
    const size_t n = strlen(record.folder);
    if (!record.on || strncmp(path, record.folder, n) != 0) return NULL;
    if (path[n] == '\0') return path + n;
    return path[n] == '/' ? path + n + 1 : NULL;
}

/* The index of an open file, -1 for one that is not recorded. */
static int file_of(const struct stat *st) {
    for (int i = 0; i < record.n_files; i++)
        if (record.files[i].inode == st->st_ino) return i;
    return -1;
}

static int file_at(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? file_of(&st) : -1;
}

static int add_file(const char *path) {
    struct stat st;
    need(record.n_files < MAX_FILES, "too many files");
    Recorded *f = &record.files[record.n_files];
    *f          = (Recorded){.fd = __real_open(path, O_RDONLY | O_CLOEXEC)};
    need(f->fd >= 0 && fstat(f->fd, &st) == 0, path);
    f->inode = st.st_ino;
    return record.n_files++;
}

/* Lists the bytes that have changed since the last call. */
static void find_changes(void) {
    for (int i = 0; i < record.n_files; i++) {
        Recorded   *f = &record.files[i];
        struct stat st;
        need(fstat(f->fd, &st) == 0, "fstat");
        const size_t n    = (size_t)st.st_size;
        char        *data = malloc(n + 1);
        need(data != NULL && pread(f->fd, data, n, 0) == (ssize_t)n, "reading a file again");
        if (n == f->n && memcmp(data, f->data != NULL ? f->data : "", n) == 0) {
            free(data);
            continue;
        }
        free(f->data);
        f->data     = data;
        f->n        = n;
        PowerOp *op = add(POWER_DATA, i, "", "");
        op->data    = malloc(n + 1);
        op->n       = n;
        need(op->data != NULL, "memory");
        memcpy(op->data, data, n);
    }
}

/* ---- the record ---- */

static void add_initial(const char *path) {
    DIR           *dir = opendir(path);
    struct dirent *e;
    need(dir != NULL, path);
    while ((e = readdir(dir)) != NULL) {
        char        name[PATH_MAX];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        need(snprintf(name, sizeof name, "%s/%s", path, e->d_name) < (int)sizeof name, path);
        need(lstat(name, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)), name);
        if (S_ISDIR(st.st_mode)) {
            add(POWER_FOLDER, -1, "", inside(name));
            add_initial(name);
        } else if (file_of(&st) >= 0)
            add(POWER_LINK, file_of(&st), "", inside(name));
        else
            add(POWER_CREATE, add_file(name), "", inside(name));
    }
    closedir(dir);
}

static void forget(void) {
    for (int i = 0; i < record.n_ops; i++) free(record.ops[i].data);
    record.n_ops = record.n_files = 0;
}

void power_record(const char *folder, PowerBug bug) {
    forget();
    record.on  = true;
    record.bug = bug;
    need(snprintf(record.folder, sizeof record.folder, "%s", folder) < PATH_MAX, folder);
    add_initial(folder);
    find_changes();
    record.n_initial = record.n_ops;
}

void power_mark(void) {
    find_changes();
    add(POWER_MARK, -1, "", "");
}

void power_stop(void) {
    find_changes();
    record.on = false;
    for (int i = 0; i < record.n_files; i++) {
        free(record.files[i].data);
        close(record.files[i].fd);
    }
    record.n_files = 0;
}

void power_save(const char *path) {
    FILE *f = __real_fopen(path, "wb");
    need(f != NULL && fwrite(&record.n_ops, sizeof record.n_ops, 1, f) == 1 &&
             fwrite(&record.n_initial, sizeof record.n_initial, 1, f) == 1,
         path);
    for (int i = 0; i < record.n_ops; i++) {
        const PowerOp *op = &record.ops[i];
        need(fwrite(op, sizeof *op, 1, f) == 1 && (op->n == 0 || fwrite(op->data, 1, op->n, f) == op->n), path);
    }
    need(__real_fclose(f) == 0, path);
}

void power_load(const char *path) {
    forget();
    FILE *f = __real_fopen(path, "rb");
    need(f != NULL && fread(&record.n_ops, sizeof record.n_ops, 1, f) == 1 &&
             fread(&record.n_initial, sizeof record.n_initial, 1, f) == 1 && record.n_ops <= MAX_OPS,
         path);
    for (int i = 0; i < record.n_ops; i++) {
        PowerOp *op = &record.ops[i];
        need(fread(op, sizeof *op, 1, f) == 1, path);
        op->data = op->kind == POWER_DATA ? malloc(op->n + 1) : NULL;
        need(op->n == 0 || (op->data != NULL && fread(op->data, 1, op->n, f) == op->n), path);
    }
    need(__real_fclose(f) == 0, path);
}

const PowerOp *power_ops(int *n, int *n_initial) {
    *n         = record.n_ops;
    *n_initial = record.n_initial;
    return record.ops;
}

/* ---- the calls ---- */

static void opened(const char *path, bool existed) {
    if (!existed) add(POWER_CREATE, add_file(path), "", inside(path));
    find_changes(); /* it may have been truncated */
}

int __wrap_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    const bool watched = inside(path) != NULL && (flags & O_ACCMODE) != O_RDONLY;
    const bool existed = watched && access(path, F_OK) == 0;
    if (watched) find_changes();
    const int fd = __real_open(path, flags, mode);
    if (watched && fd >= 0) opened(path, existed);
    return fd;
}

WRAP(FILE *, fopen, const char *path, const char *mode) {
    const bool watched = inside(path) != NULL && strpbrk(mode, "wa+") != NULL;
    const bool existed = watched && access(path, F_OK) == 0;
    if (watched) find_changes();
    FILE *f = __real_fopen(path, mode);
    if (watched && f != NULL) opened(path, existed);
    return f;
}

WRAP(int, fsync, int fd) {
    struct stat st;
    char        link[64], path[PATH_MAX];
    if (!record.on || fstat(fd, &st) != 0) return __real_fsync(fd);
    find_changes();
    if (S_ISDIR(st.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n     = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        if (record.bug != POWER_NO_SYNC_FOLDER && inside(path) != NULL) add(POWER_SYNC_FOLDER, -1, inside(path), "");
    } else if (record.bug != POWER_NO_SYNC && record.bug != POWER_LATE_SYNC && file_of(&st) >= 0)
        add(POWER_SYNC, file_of(&st), "", "");
    return 0;
}

WRAP(int, fflush, FILE *f) {
    const int result = __real_fflush(f);
    if (record.on) find_changes();
    return result;
}

WRAP(int, fclose, FILE *f) {
    struct stat st;
    const bool  late   = record.on && record.bug == POWER_LATE_SYNC && fstat(fileno(f), &st) == 0;
    const int   result = __real_fclose(f);
    if (record.on) find_changes();
    if (late && file_of(&st) >= 0) add(POWER_SYNC, file_of(&st), "", "");
    return result;
}

WRAP(int, ftruncate, int fd, off_t n) {
    if (record.on) find_changes();
    const int result = __real_ftruncate(fd, n);
    if (record.on) find_changes();
    return result;
}

WRAP(int, rename, const char *from, const char *to) {
    const char *a = inside(from), *b = inside(to);
    if (a == NULL || b == NULL) return __real_rename(from, to);
    const int file = file_at(from), replaced = file_at(to);
    find_changes();
    const int result = __real_rename(from, to);
    if (result == 0 && file != replaced) add(POWER_RENAME, file, a, b);
    return result;
}

WRAP(int, link, const char *from, const char *to) {
    const char *a = inside(from), *b = inside(to);
    if (a == NULL || b == NULL) return __real_link(from, to);
    if (record.bug == POWER_LINK_IS_RENAME) return __wrap_rename(from, to);
    if (record.bug == POWER_NO_LINKS) {
        errno = EPERM;
        return -1;
    }
    const int file = file_at(from);
    find_changes();
    const int result = __real_link(from, to);
    if (result == 0) add(POWER_LINK, file, a, b);
    return result;
}

WRAP(int, unlink, const char *path) {
    const char *a = inside(path);
    if (a != NULL) find_changes();
    const int result = __real_unlink(path);
    if (a != NULL && result == 0) add(POWER_UNLINK, -1, a, "");
    return result;
}

WRAP(int, remove, const char *path) { return inside(path) != NULL ? __wrap_unlink(path) : __real_remove(path); }

WRAP(int, unlinkat, int folder, const char *name, int flags) {
    char link[64], path[2 * PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t n = record.on && flags == 0 ? readlink(link, path, PATH_MAX) : -1;
    if (n < 0) return __real_unlinkat(folder, name, flags);
    snprintf(path + n, PATH_MAX, "/%s", name);
    return __wrap_unlink(path);
}

WRAP(int, mkdir, const char *path, mode_t mode) {
    const char *a      = inside(path);
    const int   result = __real_mkdir(path, mode);
    if (a != NULL && result == 0) add(POWER_FOLDER, -1, "", a);
    return result;
}
