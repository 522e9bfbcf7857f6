/* Loading a backend runs its code, so what is loaded is checked first: the file and its folder belong to root or to the
 * user, and nobody else can write to them. The checks look at open descriptors, and the loader gets the descriptor of
 * the file: nothing that happens to the path in between matters.
 *
 *     folder  open, fstat  ->  file  openat without links, fstat, ELF header  ->  dlopen of /proc/self/fd/N */
#include "executor/plugin.h"

#include "reprise/options.h"

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

#ifndef RP_BACKEND_DIR
#define RP_BACKEND_DIR "/usr/local/lib/reprise/backends"
#endif

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { MACHINE = EM_RISCV };
#else
enum { MACHINE = EM_NONE };
#endif

static RpStatus cannot(const char *path, const char *what) {
    return rp_fail(errno == ENOENT ? RP_E_NOT_AVAILABLE : RP_E_ARG, "backend '%s': %s: %s", path, what,
                   strerror(errno));
}

static RpStatus check_owner(const char *path, const char *what, const struct stat *s) {
    if (s->st_uid != 0 && s->st_uid != geteuid())
        return rp_fail(RP_E_ARG, "backend '%s': the %s belongs to user %u, must be root's or your own", path, what,
                       (unsigned)s->st_uid);
    if ((s->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return rp_fail(RP_E_ARG, "backend '%s': the %s can be written by others (mode %03o)", path, what,
                       (unsigned)s->st_mode & 0777u);
    return RP_OK;
}

static RpStatus check_elf(const char *path, int fd) {
    Elf64_Ehdr h;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_type != ET_DYN)
        return rp_fail(RP_E_ARG, "backend '%s': it is no shared object", path);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || (int)h.e_machine != (int)MACHINE)
        return rp_fail(RP_E_UNSUPPORTED, "backend '%s': it is for another machine (ELF machine %d, here %d)", path,
                       (int)h.e_machine, (int)MACHINE);
    return RP_OK;
}

static RpStatus check_file(const char *path, int folder, int file) {
    struct stat s;
    if (fstat(folder, &s) != 0) return cannot(path, "its folder");
    RP_TRY(check_owner(path, "folder", &s));
    if (fstat(file, &s) != 0) return cannot(path, "the file");
    if (!S_ISREG(s.st_mode)) return rp_fail(RP_E_ARG, "backend '%s': it is no regular file", path);
    RP_TRY(check_owner(path, "file", &s));
    return check_elf(path, file);
}

static RpStatus check_table(const char *path, const RpBackend *b) {
    if (b == NULL) return rp_fail(RP_E_NOT_AVAILABLE, "backend '%s': it cannot run here", path);
    if (b->abi != RP_BACKEND_ABI)
        return rp_fail(RP_E_UNSUPPORTED,
                       "backend '%s': it is made for version %u of the interface, this library has %d", path,
                       (unsigned)b->abi, (int)RP_BACKEND_ABI);
    if (b->bytes < sizeof *b)
        return rp_fail(RP_E_UNSUPPORTED, "backend '%s': its table has %u bytes, must be at least %zu", path,
                       (unsigned)b->bytes, sizeof *b);
    if (b->name == NULL || b->name[0] == '\0' || b->open == NULL || b->run == NULL || b->describe == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "backend '%s': its table lacks a name, open, run or describe", path);
    return RP_OK;
}

/* dlsym gives an object pointer, which ISO C does not convert. */
static RpBackendEntry *entry_of(void *handle) {
    RpBackendEntry *entry  = NULL;
    void           *symbol = dlsym(handle, RP_BACKEND_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

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

/* Takes `file` over. RTLD_NODELETE: threads that the backend has started may be in its code when the last executor is
 * gone. */
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

static RpStatus load(const char *path, int file, Plugin *out) {
    (void)dlerror();
    out->handle = open_library(file);
    if (out->handle == NULL) {
        const char *why = dlerror();
        return rp_fail(RP_E_NOT_AVAILABLE, "backend '%s': it cannot be loaded: %s", path,
                       why != NULL ? why : "out of memory");
    }
    RpBackendEntry *entry = entry_of(out->handle);
    if (entry == NULL) return rp_fail(RP_E_UNSUPPORTED, "backend '%s': it has no function %s", path, RP_BACKEND_SYMBOL);
    out->backend = entry();
    return check_table(path, out->backend);
}

static RpStatus load_checked(const char *path, int folder, const char *base, Plugin *out) {
    const int file = openat(folder, base, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ELOOP) return rp_fail(RP_E_ARG, "backend '%s': it is a symbolic link", path);
    if (file < 0) return cannot(path, "the file cannot be opened");
    const RpStatus st = check_file(path, folder, file);
    if (st == RP_OK) return load(path, file, out);
    close(file);
    return st;
}

/* A name without '/' is that of NAME.so in the folder of backends. */
static RpStatus path_of(const char *name, char path[PATH_MAX]) {
    const char *folder = rp_option(RP_OPT_BACKEND_DIR);
    int         n;
    if (strchr(name, '/') != NULL)
        n = snprintf(path, PATH_MAX, "%s", name);
    else
        n = snprintf(path, PATH_MAX, "%s/%s.so", folder[0] != '\0' ? folder : RP_BACKEND_DIR, name);
    if (name[0] == '\0' || n >= PATH_MAX) return rp_fail(RP_E_ARG, "backend '%.80s': no name or path", name);
    return RP_OK;
}

RpStatus rp_plugin_load(const char *name, Plugin *out) {
    char path[PATH_MAX], folder[PATH_MAX];
    *out = (Plugin){0};
    RP_TRY(path_of(name, path));
    strcpy(folder, path);
    char *slash   = strrchr(folder, '/');
    slash[1]      = '\0';
    const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return cannot(path, "its folder cannot be opened");
    const RpStatus st = load_checked(path, dir, path + (slash + 1 - folder), out);
    close(dir);
    if (st == RP_OK) return RP_OK;
    if (out->handle != NULL) dlclose(out->handle);
    *out = (Plugin){0};
    return st;
}
