#include "base/files/temporary.h"

#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(EWOULDBLOCK == EAGAIN, "lock() and its caller");

/* DIGITS of a number; the first file's name has PREFIX bytes before the random number and MAIN bytes in all. */
enum { DIGITS = 16, PREFIX = sizeof ".reprise-" - 1 + DIGITS + 1, MAIN = PREFIX + DIGITS };

static size_t folder_length(const char *target) {
    const char *slash = strrchr(target, '/');
    return slash != NULL ? (size_t)(slash - target) + 1 : 0;
}

static bool is_number(const char *digits) { return strspn(digits, "0123456789abcdef") >= DIGITS; }

/* ".reprise-<target>-". A target that is a further file of a writer has that writer's number: the next writer of the
 * writer's target finds its temporary files too. */
static void prefix_of(const char *target, char out[PREFIX + 1]) {
    static const uint64_t key[2] = {0x7265707269736531u, 0x74656d706f726172u}; /* fixed: for other processes */
    const char           *name   = target + folder_length(target);
    if (strncmp(name, ".reprise-", PREFIX - DIGITS - 1) == 0 && strlen(name) > MAIN && name[MAIN] == '.' &&
        is_number(name + PREFIX - DIGITS - 1) && name[PREFIX - 1] == '-')
        snprintf(out, PREFIX + 1, "%.*s", PREFIX, name);
    else
        snprintf(out, PREFIX + 1, ".reprise-%016llx-", (unsigned long long)rp_siphash(key, name, strlen(name)));
}

/* ---- creation ---- */

/* Locks the new file. EAGAIN if a cleaning process, which saw it without a lock, has removed it or is about to.
 * On a file system without locks it stays without one; nobody can lock it then, which a removal needs. */
static bool lock(int fd) {
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    if (fstat(fd, &st) != 0) return false;
    if (st.st_nlink == 0) errno = EAGAIN;
    return st.st_nlink > 0;
}

RpStatus rp_temporary_create(const char *path, const char *target, char **name, int *fd) {
    const size_t folder = folder_length(target), size = folder + MAIN + 1;
    char         prefix[PREFIX + 1];
    prefix_of(target, prefix);
    *name = malloc(size);
    *fd   = -1;
    if (*name == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) break;
        snprintf(*name, size, "%.*s%s%016llx", (int)folder, target, prefix, (unsigned long long)number);
        *fd = open(*name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (*fd >= 0 && lock(*fd)) return RP_OK;
        const int error = errno;
        if (*fd >= 0) {
            (void)unlink(*name);
            close(*fd);
            *fd   = -1;
            errno = error;
        }
        if (error != EEXIST && error != EAGAIN) break;
    }
    const RpStatus st = rp_fail(RP_E_IO, "%s: a temporary file in its folder: %s", path, strerror(errno));
    free(*name);
    *name = NULL;
    return st;
}

mode_t rp_temporary_mode(void) {
    char        text[1024];
    const int   fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t     n  = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    const char *at;
    unsigned    mask;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    at                  = strstr(text, "\nUmask:");
    return at != NULL && sscanf(at, "\nUmask: %o", &mask) == 1 ? 0666 & ~(mode_t)mask : 0600;
}

/* ---- removal ---- */

/* Removes the file `name` if its writer has ended: then its first file is not locked. A writer removes its first file
 * last, so a further file without it is left over. */
static bool remove_left_over(int folder, const char *name) {
    char        first[MAIN + 1];
    struct stat st;
    snprintf(first, sizeof first, "%.*s", MAIN, name);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return false;
    const int  fd      = openat(folder, first, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool ended   = fd >= 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT && name[MAIN] != '\0';
    const bool removed = ended && unlinkat(folder, name, 0) == 0;
    if (fd >= 0) close(fd);
    return removed;
}

int32_t rp_temporary_clean(const char *target, char *names, size_t names_bytes) {
    const size_t   folder = folder_length(target);
    char           path[PATH_MAX], prefix[PREFIX + 1];
    int32_t        n    = 0;
    size_t         used = 0;
    struct dirent *entry;
    if (names_bytes > 0) names[0] = '\0';
    if (folder >= sizeof path) return 0;
    snprintf(path, sizeof path, "%.*s", folder > 0 ? (int)folder : 1, folder > 0 ? target : ".");
    DIR *dir = opendir(path);
    if (dir == NULL) return 0;
    prefix_of(target, prefix);
    while ((entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (strncmp(name, prefix, PREFIX) != 0 || !is_number(name + PREFIX)) continue;
        if (name[MAIN] != '\0' && name[MAIN] != '.') continue;
        if (!remove_left_over(dirfd(dir), name)) continue;
        if (used < names_bytes)
            used += (size_t)snprintf(names + used, names_bytes - used, "%s%.*s%s", n > 0 ? ", " : "", (int)folder,
                                     target, name);
        n++;
    }
    closedir(dir);
    return n;
}

/* ---- a file for a while ---- */

RpStatus rp_scratch_open(const char *target, const char *more, Scratch *s) {
    *s         = (Scratch){.fd = -1};
    char *real = realpath(target, NULL);
    if (real == NULL && errno != ENOENT) return rp_fail(RP_E_IO, "%s: %s", target, strerror(errno));
    if (real != NULL) target = real;
    (void)rp_temporary_clean(target, NULL, 0);
    RpStatus     st   = rp_temporary_create(target, target, &s->first, &s->fd);
    const size_t size = st == RP_OK ? strlen(s->first) + strlen(more) + 2 : 0;
    if (st == RP_OK && (s->path = malloc(size)) == NULL) st = rp_fail(RP_E_NOMEM, "%s: out of memory", target);
    if (st == RP_OK) snprintf(s->path, size, "%s.%s", s->first, more);
    free(real);
    return st;
}

void rp_scratch_close(Scratch *s) {
    if (s->path != NULL) (void)unlink(s->path);
    if (s->first != NULL) (void)unlink(s->first);
    if (s->fd >= 0) close(s->fd);
    free(s->path);
    free(s->first);
}
