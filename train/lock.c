/* A lock on the name of a file: a lock on a range of bytes of its folder, at a place that depends on the name.
 *
 *     start = (XXH64 of the name mod 2^40) * 2^22     length = process id, which is below 2^22
 *
 * A folder cannot be opened for writing, so exclusive locks are not possible. Everyone takes a shared one, and then
 * asks whether an exclusive one would conflict with another: its length is the process. Two that begin at the same
 * moment may both be refused. The locks belong to the open folder (F_OFD_SETLK), so two trainers of one process exclude
 * each other too. Processes of other machines that share the folder over a network are not seen. */
#include "train/lock.h"

#include "base/xxh64.h"
#include "reprise/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACE_BITS = 40, PROCESS_BITS = 22 };

struct TrainLock {
    int   fd; /* of the folder */
    off_t start;
    dev_t device;
    ino_t folder;
};

static RpStatus failed(const char *path, const char *what) {
    return rp_fail(RP_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* The command line of a process, "" if it cannot be read. */
static void command_of(long process, char *out, size_t size) {
    char    name[64], text[160];
    size_t  n = 0;
    ssize_t got;
    out[0] = '\0';
    snprintf(name, sizeof name, "/proc/%ld/cmdline", process);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    while (n < sizeof text && (got = read(fd, text + n, sizeof text - n)) > 0) n += (size_t)got;
    close(fd);
    while (n > 0 && text[n - 1] == '\0') n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0') text[i] = ' '; /* between arguments */
    rp_visible_text(text, n, out, size);
}

static RpStatus held(const char *path, long process) {
    char command[512];
    if (process == (long)getpid())
        return rp_fail(RP_E_STATE, "%s: another trainer of this process writes this checkpoint", path);
    command_of(process, command, sizeof command);
    return rp_fail(RP_E_STATE, "%s: process %ld%s%s%s writes this checkpoint: wait until it ends, or give another path",
                   path, process, command[0] != '\0' ? " (" : "", command, command[0] != '\0' ? ")" : "");
}

/* Opens the folder of the file that the path leads to. */
static RpStatus open_folder(const char *path, TrainLock *lock) {
    char       *target = realpath(path, NULL);
    struct stat st;
    if (target == NULL && errno != ENOENT) return failed(path, "its folder");
    const char *full = target != NULL ? target : path, *slash = strrchr(full, '/'),
               *name    = slash != NULL ? slash + 1 : full;
    const size_t n      = slash == NULL ? 0 : slash == full ? 1 : (size_t)(slash - full);
    char        *folder = n > 0 ? strndup(full, n) : strdup(".");
    lock->start         = (off_t)(rp_xxh64(name, strlen(name)) >> (64 - PLACE_BITS) << PROCESS_BITS);
    lock->fd            = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    RpStatus status     = RP_OK;
    if (folder == NULL)
        status = rp_fail(RP_E_NOMEM, "%s: out of memory for a path", path);
    else if (lock->fd < 0 || fstat(lock->fd, &st) != 0)
        status = failed(path, "its folder");
    else
        lock->device = st.st_dev, lock->folder = st.st_ino;
    free(folder);
    free(target);
    return status;
}

static RpStatus take(const char *path, TrainLock *lock) {
    const off_t  length = (off_t)1 << PROCESS_BITS;
    struct flock own    = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = lock->start, .l_len = (off_t)getpid()};
    struct flock other  = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = lock->start, .l_len = length};
    if (fcntl(lock->fd, F_OFD_SETLK, &own) != 0 || fcntl(lock->fd, F_OFD_GETLK, &other) != 0)
        return failed(path, "its folder cannot be locked");
    return other.l_type == F_UNLCK ? RP_OK : held(path, (long)other.l_len);
}

RpStatus rp_train_lock(const char *path, TrainLock **out) {
    TrainLock *lock = calloc(1, sizeof *lock);
    *out            = NULL;
    if (lock == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a lock", path);
    lock->fd    = -1;
    RpStatus st = open_folder(path, lock);
    if (st == RP_OK) st = take(path, lock);
    if (st != RP_OK) {
        rp_train_unlock(lock);
        return st;
    }
    *out = lock;
    return RP_OK;
}

void rp_train_unlock(TrainLock *lock) {
    if (lock == NULL) return;
    if (lock->fd >= 0) close(lock->fd);
    free(lock);
}

RpStatus rp_train_lock_is_of(const TrainLock *lock, const char *path, bool *is) {
    TrainLock of = {.fd = -1};
    *is          = false;
    if (lock == NULL) return RP_OK;
    const RpStatus st = open_folder(path, &of);
    *is = st == RP_OK && of.start == lock->start && of.device == lock->device && of.folder == lock->folder;
    if (of.fd >= 0) close(of.fd);
    return st;
}
