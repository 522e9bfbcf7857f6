/* Loading a shared object runs its code, so the file is checked first: file and folder must belong to root or to the
 * user, and nobody else may have write permission. The checks look at open descriptors, and the loader gets the
 * descriptor of the file: nothing that happens to the path in between matters.
 *
 *     folder  open, fstat  ->  file  openat without links, fstat, ELF header  ->  dlopen of /proc/self/fd/N */
#include "executor/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { MACHINE = EM_RISCV };
#else
enum { MACHINE = EM_NONE };
#endif

static RpStatus cannot(const char *what, const char *path, const char *why) {
    return rp_fail(errno == ENOENT ? RP_E_NOT_AVAILABLE : RP_E_ARG, "%s '%s': %s: %s", what, path, why,
                   strerror(errno));
}

static RpStatus check_owner(const char *what, const char *path, const char *part, const struct stat *s) {
    if (s->st_uid != 0 && s->st_uid != geteuid())
        return rp_fail(RP_E_ARG, "%s '%s': the %s belongs to user %u, must be root's or your own", what, path, part,
                       (unsigned)s->st_uid);
    if ((s->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return rp_fail(RP_E_ARG, "%s '%s': the %s can be written by others (mode %03o)", what, path, part,
                       (unsigned)s->st_mode & 0777u);
    return RP_OK;
}

static RpStatus check_elf(const char *what, const char *path, int fd) {
    Elf64_Ehdr h;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_type != ET_DYN)
        return rp_fail(RP_E_ARG, "%s '%s': it is no shared object", what, path);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || (int)h.e_machine != (int)MACHINE)
        return rp_fail(RP_E_UNSUPPORTED, "%s '%s': it is for another machine (ELF machine %d, here %d)", what, path,
                       (int)h.e_machine, (int)MACHINE);
    return RP_OK;
}

static RpStatus check_file(const char *what, const char *path, int folder, int file) {
    struct stat s;
    if (fstat(folder, &s) != 0) return cannot(what, path, "its folder");
    RP_TRY(check_owner(what, path, "folder", &s));
    if (fstat(file, &s) != 0) return cannot(what, path, "the file");
    if (!S_ISREG(s.st_mode)) return rp_fail(RP_E_ARG, "%s '%s': it is no regular file", what, path);
    RP_TRY(check_owner(what, path, "file", &s));
    return check_elf(what, path, file);
}

/* dlsym gives an object pointer, which ISO C does not convert: the caller copies it. */
void *rp_shared_object_symbol(void *handle, const char *name) { return dlsym(handle, name); }

/* The loader knows a library by the name that it was loaded by, so the descriptor of a loaded file stays open: no other
 * file gets its number, nor its inode. A file that is loaded already is loaded by its first name again. */
typedef struct Kept {
    struct Kept *next;
    dev_t        device;
    ino_t        inode;
    int          fd;
} Kept;

static Kept           *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* The descriptor to load the file by. *is_new: it is `file`, which is to be kept if it can be loaded. */
static int descriptor_of(const Kept *k, int file, struct stat *s, bool *is_new) {
    *is_new = true;
    if (fstat(file, s) != 0) return file;
    while (k != NULL && (k->device != s->st_dev || k->inode != s->st_ino)) k = k->next;
    *is_new = k == NULL;
    return k != NULL ? k->fd : file;
}

/* Takes `file` over. RTLD_NODELETE: threads that it has started may be in its code when nothing of the library uses
 * it any more. */
static void *open_library(int file) {
    struct stat s;
    bool        is_new;
    char        name[64];
    Kept       *k      = malloc(sizeof *k);
    void       *handle = NULL;
    pthread_mutex_lock(&kept_lock);
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor_of(kept, file, &s, &is_new));
    if (k != NULL) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != NULL && is_new) {
        *k   = (Kept){.next = kept, .device = s.st_dev, .inode = s.st_ino, .fd = file};
        kept = k;
    } else {
        free(k);
        close(file);
    }
    pthread_mutex_unlock(&kept_lock);
    return handle;
}

static RpStatus load(const char *what, const char *path, int file, void **handle) {
    (void)dlerror();
    *handle = open_library(file);
    if (*handle != NULL) return RP_OK;
    const char *why = dlerror();
    return rp_fail(RP_E_NOT_AVAILABLE, "%s '%s': it cannot be loaded: %s", what, path,
                   why != NULL ? why : "out of memory");
}

static RpStatus load_checked(const char *what, const char *path, int folder, const char *base, void **handle) {
    const int file = openat(folder, base, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ELOOP) return rp_fail(RP_E_ARG, "%s '%s': it is a symbolic link", what, path);
    if (file < 0) return cannot(what, path, "the file cannot be opened");
    const RpStatus st = check_file(what, path, folder, file);
    if (st == RP_OK) return load(what, path, file, handle);
    close(file);
    return st;
}

RpStatus rp_shared_object_load(const char *what, const char *path, void **handle) {
    char folder[PATH_MAX];
    *handle = NULL;
    if (strchr(path, '/') == NULL || strlen(path) >= sizeof folder)
        return rp_fail(RP_E_ARG, "%s '%.80s': no path with a '/'", what, path);
    strcpy(folder, path);
    char *slash   = strrchr(folder, '/');
    slash[1]      = '\0';
    const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return cannot(what, path, "its folder cannot be opened");
    const RpStatus st = load_checked(what, path, dir, path + (slash + 1 - folder), handle);
    close(dir);
    return st;
}

RpStatus rp_shared_object_fail(RpStatus status, const char *text) {
    return rp_fail(status != RP_OK ? status : RP_E_ARG, "%s", text != NULL ? text : "");
}
