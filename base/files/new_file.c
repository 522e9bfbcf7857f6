/* Files that are written as a whole (reprise/file.h).
 *
 *     folder/.reprise-<target>-<random>   created (temporary.h), written, fsync, then renamed to folder/name, fsync of
 *                                         folder */
#include "base/files/new_file.h"

#include "base/argument.h"
#include "base/files/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct RpNewFile {
    FILE  *stream;
    char  *path;      /* as given, for errors */
    char  *target;    /* path without links */
    char  *temporary; /* NULL: written in place */
    char  *kept;      /* the name that the old file gets; NULL: none */
    mode_t mode;      /* permissions that it gets when it is complete */
    bool   own_mode;  /* the file system keeps them */
};

static RpStatus failed(const char *path, const char *what) {
    return rp_fail(RP_E_IO, "%s: %s%s%s", path, what, what[0] != '\0' ? ": " : "", strerror(errno));
}

/* Opens the temporary file of f->target. A file system without permissions, such as FAT, does not create the file for
 * its owner alone, and may refuse to change the mode. */
static RpStatus create(RpNewFile *f, int *fd) {
    struct stat st;
    (void)rp_temporary_clean(f->target, NULL, 0);
    RP_TRY(rp_temporary_create(f->path, f->target, &f->temporary, fd));
    if (fstat(*fd, &st) != 0) return failed(f->path, "");
    f->own_mode = (st.st_mode & 0177) == 0;
    return RP_OK;
}

/* Finds out what exists at the path, and opens the file to be written. */
static RpStatus open_file(RpNewFile *f, int *fd) {
    struct stat old;
    if (stat(f->path, &old) != 0) {
        if (errno != ENOENT) return failed(f->path, "");
        if (lstat(f->path, &old) == 0) return rp_fail(RP_E_ARG, "%s: is a link that leads nowhere", f->path);
        f->target = strdup(f->path);
        f->mode   = rp_temporary_mode();
        return f->target != NULL ? create(f, fd) : rp_fail(RP_E_NOMEM, "%s: out of memory", f->path);
    }
    if (S_ISDIR(old.st_mode)) return rp_fail(RP_E_ARG, "%s: is a folder", f->path);
    if (!S_ISREG(old.st_mode)) {
        *fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return *fd >= 0 ? RP_OK : failed(f->path, "");
    }
    f->target = realpath(f->path, NULL);
    if (f->target == NULL) return failed(f->path, "");
    if (access(f->target, W_OK) != 0) return failed(f->path, ""); /* a rename would replace a read-only file */
    f->mode = old.st_mode & 0777;
    return create(f, fd);
}

RpStatus rp_new_file_open(const char *path, RpNewFile **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(path, "path");

    RpNewFile *f  = calloc(1, sizeof *f);
    int        fd = -1;
    if (f == NULL || (f->path = strdup(path)) == NULL) {
        free(f);
        return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    }
    RpStatus st = open_file(f, &fd);
    if (st == RP_OK && (f->stream = fdopen(fd, "wb")) == NULL) st = failed(path, "");
    if (st != RP_OK) {
        if (fd >= 0) close(fd);
        return rp_new_file_close(f, st);
    }
    *out = f;
    return RP_OK;
}

FILE *rp_new_file_stream(RpNewFile *f) { return f != NULL ? f->stream : NULL; }

const char *rp_new_file_temporary(const RpNewFile *f) { return f != NULL && f->temporary != NULL ? f->temporary : ""; }

int32_t rp_new_file_clean(const char *path, char *names, size_t names_bytes) {
    struct stat st;
    if (names == NULL) names_bytes = 0;
    if (names_bytes > 0) names[0] = '\0';
    if (path == NULL || (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))) return 0;
    char *target = realpath(path, NULL);
    if (target == NULL && errno != ENOENT) return 0;
    const int32_t n = rp_temporary_clean(target != NULL ? target : path, names, names_bytes);
    free(target);
    return n;
}

bool rp_new_file_in_place(const RpNewFile *f) { return f != NULL && f->temporary == NULL; }

RpStatus rp_new_file_keep(RpNewFile *f, const char *suffix) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(suffix, "suffix");
    if (f->temporary == NULL) return rp_fail(RP_E_ARG, "%s: is not a regular file", f->path);
    const size_t size = strlen(f->target) + strlen(suffix) + 1;
    if (suffix[0] == '\0' || strchr(suffix, '/') != NULL)
        return rp_fail(RP_E_ARG, "%s: suffix '%s' gives no other file of its folder", f->path, suffix);
    free(f->kept);
    f->kept = malloc(size);
    if (f->kept == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", f->path);
    snprintf(f->kept, size, "%s%s", f->target, suffix);
    return RP_OK;
}

/* The new name is on the disk once its folder is. Some file systems cannot sync folders, which is no failure. */
static void sync_folder(const char *target) {
    char        folder[PATH_MAX];
    const char *slash = strrchr(target, '/');
    const int   n     = slash != NULL ? (int)(slash - target) + 1 : 0;
    snprintf(folder, sizeof folder, "%.*s", n > 0 ? n : 1, n > 0 ? target : ".");
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

static bool write_all(int fd, const char *data, size_t n) {
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        data += written;
        n -= (size_t)written;
    }
    return true;
}

/* False with errno. */
static bool copy_data(int from, int to) {
    enum { ROOM = 1 << 16 };
    struct stat st;
    char       *data = malloc(ROOM);
    ssize_t     n    = -1;
    while (data != NULL && ((n = read(from, data, ROOM)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0 && !write_all(to, data, (size_t)n)) break;
    free(data);
    return n == 0 && fstat(from, &st) == 0 && fchmod(to, st.st_mode & 0777) == 0 && fsync(to) == 0;
}

/* For file systems without hard links. */
static RpStatus copy_old(const RpNewFile *f, const char *name) {
    const int from  = open(f->target, O_RDONLY | O_CLOEXEC),
              to    = from >= 0 ? open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    const bool done = to >= 0 && copy_data(from, to);
    RpStatus   st   = done ? RP_OK : failed(f->path, "copying it before it is replaced");
    if (from >= 0) close(from);
    if (to >= 0 && close(to) != 0 && done) st = failed(f->path, "copying it before it is replaced");
    if (to >= 0 && st != RP_OK) (void)unlink(name);
    return st;
}

/* Gives the old file its second name. Its first one stays until the new file gets it, so that it has a file at each
 * moment. A rename to another link of the same file does nothing: then the temporary name is left and removed. */
static RpStatus keep_old(const RpNewFile *f) {
    const size_t size = strlen(f->temporary) + sizeof ".old";
    char        *name = malloc(size);
    RpStatus     st   = RP_OK;
    if (name == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", f->path);
    snprintf(name, size, "%s.old", f->temporary);
    if (link(f->target, name) != 0) {
        const int error = errno;
        if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK)
            st = copy_old(f, name);
        else if (error != ENOENT)
            st = failed(f->path, "a second name");
        if (st != RP_OK || error == ENOENT) {
            free(name);
            return st;
        }
    }
    if (rename(name, f->kept) != 0) st = failed(f->kept, "");
    (void)unlink(name);
    free(name);
    return st;
}

static RpStatus finish(RpNewFile *f) {
    errno            = 0;
    const bool wrote = fflush(f->stream) == 0 && !ferror(f->stream);
    const bool sync  = wrote && f->temporary != NULL;
    if (sync && f->own_mode && fchmod(fileno(f->stream), f->mode) != 0) return failed(f->path, "permissions");
    if (!wrote || (sync && fsync(fileno(f->stream)) != 0))
        return rp_fail(RP_E_IO, "%s: %s", f->path, errno != 0 ? strerror(errno) : "could not be written");
    if (!sync) return RP_OK;
    if (f->kept != NULL) RP_TRY(keep_old(f));
    if (rename(f->temporary, f->target) != 0) return failed(f->path, "");
    sync_folder(f->target);
    return RP_OK;
}

/* A dump that fails because of its stream does not know the cause. Flushing the rest fails with the same cause. */
static RpStatus find_cause(RpNewFile *f) {
    errno = 0;
    return fflush(f->stream) != 0 && errno != 0 ? failed(f->path, "") : RP_E_IO;
}

RpStatus rp_new_file_close(RpNewFile *f, RpStatus status) {
    if (f == NULL) return status;
    if (status == RP_E_IO && f->stream != NULL && ferror(f->stream)) status = find_cause(f);
    if (status == RP_OK) status = finish(f);
    if (f->stream != NULL && fclose(f->stream) != 0 && status == RP_OK && f->temporary == NULL)
        status = failed(f->path, "");
    if (status != RP_OK && f->temporary != NULL) (void)unlink(f->temporary);
    free(f->kept);
    free(f->temporary);
    free(f->target);
    free(f->path);
    free(f);
    return status;
}
