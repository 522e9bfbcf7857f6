/* __wrap_X is called in place of X and __real_X is X itself (ld --wrap). A failing close or fclose still closes, as on
 * Linux. Functions that release something else never fail. */
#include "tests/support/host_faults.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <fcntl.h>
#include <pcre2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static atomic_int            left; /* calls up to the one that fails; below 1: none */
static atomic_long           live;
static const char           *only; /* NULL: calls of any function count */
static _Atomic(const char *) failed;
static atomic_int            failed_kind;
static bool                  no_links;

void host_fault_arm_call(const char *function, int k) {
    atomic_store(&failed, NULL);
    only = function;
    atomic_store(&left, k);
}

void host_without_links(bool without) { no_links = without; }

void host_fault_arm(int k) { host_fault_arm_call(NULL, k); }

const char *host_fault_disarm(HostFaultKind *kind) {
    atomic_store(&left, 0);
    *kind = (HostFaultKind)atomic_load(&failed_kind);
    return atomic_load(&failed);
}

long host_live(void) { return atomic_load(&live); }

/* True if this call must fail; sets errno. */
static bool fails(const char *function, HostFaultKind kind) {
    static const int error[HOST_N_KINDS] = {[HOST_MEMORY] = ENOMEM, [HOST_FILE] = EIO, [HOST_THREAD] = EAGAIN};
    if (atomic_load(&left) < 1 || (only != NULL && strcmp(only, function) != 0)) return false;
    if (atomic_fetch_sub(&left, 1) != 1) return false;
    atomic_store(&failed_kind, (int)kind);
    atomic_store(&failed, function);
    errno = error[kind];
    return true;
}

static void *counted(void *p) {
    if (p != NULL) atomic_fetch_add(&live, 1);
    return p;
}

/* WRAP(result, function, parameters): declares both functions and begins the definition of __wrap_function. */
#define WRAP(result, function, ...)                                                                                    \
    result __real_##function(__VA_ARGS__);                                                                             \
    result __wrap_##function(__VA_ARGS__);                                                                             \
    result __wrap_##function(__VA_ARGS__)

/* ---- memory ---- */

WRAP(void *, malloc, size_t n) { return fails("malloc", HOST_MEMORY) ? NULL : counted(__real_malloc(n)); }

WRAP(void *, calloc, size_t n, size_t size) {
    return fails("calloc", HOST_MEMORY) ? NULL : counted(__real_calloc(n, size));
}

WRAP(void *, realloc, void *p, size_t n) {
    if (fails("realloc", HOST_MEMORY)) return NULL;
    return p == NULL ? counted(__real_realloc(p, n)) : __real_realloc(p, n);
}

WRAP(void *, aligned_alloc, size_t align, size_t n) {
    return fails("aligned_alloc", HOST_MEMORY) ? NULL : counted(__real_aligned_alloc(align, n));
}

WRAP(char *, strdup, const char *text) { return fails("strdup", HOST_MEMORY) ? NULL : counted(__real_strdup(text)); }

WRAP(char *, strndup, const char *text, size_t n) {
    return fails("strndup", HOST_MEMORY) ? NULL : counted(__real_strndup(text, n));
}

WRAP(int, vasprintf, char **out, const char *format, va_list ap) {
    if (fails("vasprintf", HOST_MEMORY)) return -1;
    const int n = __real_vasprintf(out, format, ap);
    if (n >= 0) atomic_fetch_add(&live, 1);
    return n;
}

/* Its buffer is not counted. */
WRAP(FILE *, open_memstream, char **text, size_t *size) {
    return fails("open_memstream", HOST_MEMORY) ? NULL : __real_open_memstream(text, size);
}

WRAP(char *, realpath, const char *path, char *out) {
    if (fails("realpath", HOST_MEMORY)) return NULL;
    char *result = __real_realpath(path, out);
    return out == NULL ? counted(result) : result;
}

WRAP(void, free, void *p) {
    if (p != NULL) atomic_fetch_sub(&live, 1);
    __real_free(p);
}

WRAP(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    if (fails("mmap", HOST_MEMORY)) return MAP_FAILED;
    void *p = __real_mmap(at, n, prot, flags, fd, offset);
    if (p != MAP_FAILED && (flags & MAP_FIXED) == 0) atomic_fetch_add(&live, 1); /* MAP_FIXED: within another one */
    return p;
}

WRAP(int, mprotect, void *p, size_t n, int prot) {
    return fails("mprotect", HOST_MEMORY) ? -1 : __real_mprotect(p, n, prot);
}

WRAP(int, munmap, void *p, size_t n) {
    atomic_fetch_sub(&live, 1);
    return __real_munmap(p, n);
}

/* ---- files ---- */

/* Files of /proc never fail. How often the thread pool reads one depends on the time, and it goes on without it. */
static _Thread_local int of_proc = -1;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (strncmp(path, "/proc/", 6) == 0) return of_proc = __real_open(path, flags, mode);
    return fails("open", HOST_FILE) ? -1 : __real_open(path, flags, mode);
}

WRAP(int, close, int fd) {
    const bool fail   = fd != of_proc && fails("close", HOST_FILE);
    const int  result = __real_close(fd);
    if (fd == of_proc) of_proc = -1;
    if (fail) errno = EIO;
    return fail ? -1 : result;
}

WRAP(FILE *, fopen, const char *path, const char *mode) {
    return fails("fopen", HOST_FILE) ? NULL : __real_fopen(path, mode);
}

WRAP(FILE *, fdopen, int fd, const char *mode) { return fails("fdopen", HOST_MEMORY) ? NULL : __real_fdopen(fd, mode); }

WRAP(int, fflush, FILE *f) { return fails("fflush", HOST_FILE) ? EOF : __real_fflush(f); }

WRAP(int, fclose, FILE *f) {
    const bool fail   = fails("fclose", HOST_FILE);
    const int  result = __real_fclose(f);
    if (fail) errno = EIO;
    return fail ? EOF : result;
}

WRAP(int, mkstemp, char *path) { return fails("mkstemp", HOST_FILE) ? -1 : __real_mkstemp(path); }
WRAP(ssize_t, pread, int fd, void *out, size_t n, off_t at) {
    return fails("pread", HOST_FILE) ? -1 : __real_pread(fd, out, n, at);
}
WRAP(int, fsync, int fd) { return fails("fsync", HOST_FILE) ? -1 : __real_fsync(fd); }
WRAP(int, ftruncate, int fd, off_t n) { return fails("ftruncate", HOST_FILE) ? -1 : __real_ftruncate(fd, n); }
WRAP(int, fchmod, int fd, mode_t mode) { return fails("fchmod", HOST_FILE) ? -1 : __real_fchmod(fd, mode); }
WRAP(int, fstat, int fd, struct stat *out) { return fails("fstat", HOST_FILE) ? -1 : __real_fstat(fd, out); }
WRAP(int, rename, const char *from, const char *to) {
    return fails("rename", HOST_FILE) ? -1 : __real_rename(from, to);
}
WRAP(int, link, const char *from, const char *to) {
    if (no_links) errno = EPERM;
    return no_links || fails("link", HOST_FILE) ? -1 : __real_link(from, to);
}
WRAP(int, stat, const char *path, struct stat *out) { return fails("stat", HOST_FILE) ? -1 : __real_stat(path, out); }
WRAP(ssize_t, getrandom, void *out, size_t n, unsigned flags) {
    return fails("getrandom", HOST_FILE) ? -1 : __real_getrandom(out, n, flags);
}

/* ---- threads ---- */

WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
    return fails("pthread_create", HOST_THREAD) ? EAGAIN : __real_pthread_create(out, attr, start, arg);
}

/* ---- PCRE2, which allocates by itself ---- */

WRAP(pcre2_code *, pcre2_compile_8, PCRE2_SPTR text, PCRE2_SIZE n, uint32_t options, int *error, PCRE2_SIZE *at,
     pcre2_compile_context *context) {
    if (!fails("pcre2_compile", HOST_MEMORY))
        return counted(__real_pcre2_compile_8(text, n, options, error, at, context));
    *error = PCRE2_ERROR_HEAP_FAILED;
    *at    = 0;
    return NULL;
}

WRAP(void, pcre2_code_free_8, pcre2_code *code) {
    if (code != NULL) atomic_fetch_sub(&live, 1);
    __real_pcre2_code_free_8(code);
}

WRAP(int, pcre2_jit_compile_8, pcre2_code *code, uint32_t options) {
    return fails("pcre2_jit_compile", HOST_MEMORY) ? PCRE2_ERROR_NOMEMORY : __real_pcre2_jit_compile_8(code, options);
}

WRAP(pcre2_match_data *, pcre2_match_data_create_8, uint32_t n, pcre2_general_context *context) {
    return fails("pcre2_match_data_create", HOST_MEMORY) ? NULL : counted(__real_pcre2_match_data_create_8(n, context));
}

WRAP(void, pcre2_match_data_free_8, pcre2_match_data *match) {
    if (match != NULL) atomic_fetch_sub(&live, 1);
    __real_pcre2_match_data_free_8(match);
}

WRAP(int, pcre2_match_8, const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE n, PCRE2_SIZE from, uint32_t options,
     pcre2_match_data *match, pcre2_match_context *context) {
    return fails("pcre2_match", HOST_MEMORY) ? PCRE2_ERROR_NOMEMORY
                                             : __real_pcre2_match_8(code, text, n, from, options, match, context);
}
