/* The memory of a GGUF file. Metadata is read into private memory while the file is parsed, so another process
 * that writes to the file cannot change a length between its check and its use, and truncating the file raises no
 * SIGBUS there. Tensor data behind it is mapped:
 *
 *     | header, values, tensor table | tensor data of the last chunk |  tensor data ...            |
 *     | private, read by chunks of READ_CHUNK bytes  0 .. read_bytes | mapped, or read as well     | */
#include "model/gguf/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_CHUNK = 1 << 20, HUGE_PAGE = 2 << 20 }; /* READ_CHUNK: a multiple of every page size */

/* Maps the file at a multiple of HUGE_PAGE: only then are huge pages of the page cache mapped as huge pages. First it
 * reserves more memory than the file takes, which has such an address. MAP_FAILED with errno. */
static void *map_aligned(int fd, size_t bytes) {
    if (bytes < HUGE_PAGE || bytes > SIZE_MAX - HUGE_PAGE) return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (bytes + page - 1) / page * page;
    char        *room = mmap(NULL, end + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return MAP_FAILED;
    const size_t before = (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE) % HUGE_PAGE, after = HUGE_PAGE - before;
    void        *data  = mmap(room + before, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    const int    error = errno;
    if (before > 0) munmap(room, before);
    munmap(room + before + end, after);
    if (data == MAP_FAILED) munmap(room + before, end);
    errno = error;
    return data;
}

/* Asks for memory on huge pages: a decode reads all weights in order, and would miss the TLB at each small page. False
 * where the kernel has no huge pages. */
static bool want_huge_pages(void *data, size_t bytes) {
#ifdef MADV_HUGEPAGE
    return madvise(data, bytes, MADV_HUGEPAGE) == 0;
#else
    (void)data, (void)bytes;
    return false;
#endif
}

static bool is_mapped(const RpGgufFile *f) { return f->map.data != NULL && !f->map.copy; }

static size_t mapped_bytes(const RpGgufFile *f) {
    size_t bytes = is_mapped(f) ? f->bytes : 0;
    for (int i = 0; i < f->parts.n_files; i++) bytes += mapped_bytes(f->parts.files[i]);
    return bytes;
}

static bool want_huge_mappings(const RpGgufFile *f) {
    bool all = !is_mapped(f) || want_huge_pages(f->map.data, f->bytes);
    for (int i = 0; i < f->parts.n_files; i++) all = want_huge_mappings(f->parts.files[i]) && all;
    return all;
}

bool rp_gguf_want_huge_pages(const RpGgufFile *f) {
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return (double)mapped_bytes(f) < 0.75 * memory && want_huge_mappings(f);
}

RpStatus rp_gguf_map(const char *path, bool copy, RpGgufMap *out, size_t *size) {
    struct stat info;
    *out = (RpGgufMap){.fd = -1};
    if (path[0] == '\0') return rp_fail(RP_E_IO, "the path of the model file is empty");
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) {
        const int error = errno;
        close(fd);
        return rp_fail(RP_E_IO, "%s: %s", path, strerror(error));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return rp_fail(RP_E_IO, "%s: this is not a regular file", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return rp_fail(RP_E_FORMAT, "%s: the file is empty", path);
    }
    const size_t bytes = (size_t)info.st_size;
    void        *data =
        copy ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : map_aligned(fd, bytes);
    if (data == MAP_FAILED) {
        const int error = errno;
        close(fd);
        return rp_fail(error == ENOMEM ? RP_E_NOMEM : RP_E_IO, "%s: %zu bytes: %s", path, bytes, strerror(error));
    }
    if (copy) (void)want_huge_pages(data, bytes);
    *size = bytes;
    *out  = (RpGgufMap){
         .data = data, .fd = fd, .copy = copy, .device = info.st_dev, .inode = info.st_ino, .mtime = info.st_mtim};
    return RP_OK;
}

RpStatus rp_gguf_read_pages(const char *path, void *from, size_t bytes, bool huge) {
    const size_t  page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char sink = 0;
    if (!huge) (void)madvise(from, bytes, MADV_WILLNEED); /* reads small pages, all of them at once */
#ifdef MADV_POPULATE_READ
    if (madvise(from, bytes, MADV_POPULATE_READ) == 0) return RP_OK;
    if (errno == EFAULT) /* a touch would raise SIGBUS */
        return rp_fail(RP_E_IO, "%s: a part could not be read: the file became shorter, or its device failed", path);
#endif
    for (size_t i = 0; i < bytes; i += page) sink = (char)(sink + ((const char *)from)[i]);
    return RP_OK;
}

static RpStatus changed(const RpGgufFile *f) {
    return rp_fail(RP_E_IO, "%s: the file changed while it was read", f->path);
}

RpStatus rp_gguf_read_in(RpGgufFile *f, size_t end) {
    while (f->read_bytes < end) {
        const size_t n  = f->bytes - f->read_bytes < READ_CHUNK ? f->bytes - f->read_bytes : READ_CHUNK;
        char        *at = f->map.data + f->read_bytes;
        if (!f->map.copy &&
            mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return rp_fail(RP_E_NOMEM, "%s: out of memory for the metadata", f->path);
        for (size_t done = 0; done < n;) {
            const ssize_t got = pread(f->map.fd, at + done, n - done, (off_t)(f->read_bytes + done));
            if (got == 0) return changed(f); /* it has become shorter */
            if (got < 0 && errno != EINTR) return rp_fail(RP_E_IO, "%s: %s", f->path, strerror(errno));
            if (got > 0) done += (size_t)got;
        }
        f->read_bytes += n;
    }
    return RP_OK;
}

RpStatus rp_gguf_end_load(RpGgufFile *f) {
    struct stat info;
    for (int i = 0; i < f->parts.n_files; i++)
        if (f->parts.files[i]->map.fd >= 0) RP_TRY(rp_gguf_end_load(f->parts.files[i]));
    if (f->parts.n_files > 0) return RP_OK;
    const struct timespec *before = &f->map.mtime, *now = &info.st_mtim;
    if (fstat(f->map.fd, &info) != 0) return rp_fail(RP_E_IO, "%s: %s", f->path, strerror(errno));
    if ((size_t)info.st_size != f->bytes || now->tv_sec != before->tv_sec || now->tv_nsec != before->tv_nsec)
        return changed(f);
    close(f->map.fd);
    f->map.fd = -1;
    if (mprotect(f->map.data, f->read_bytes, PROT_READ) != 0)
        return rp_fail(RP_E_IO, "%s: %s", f->path, strerror(errno));
    return RP_OK;
}

RpStatus rp_gguf_forget(RpGgufFile *f) {
    RP_TRY(rp_gguf_end_load(f));
    munmap(f->map.data, f->bytes);
    f->map.data = NULL;
    f->data     = NULL;
    return RP_OK;
}

RpStatus rp_gguf_refuse_output(const RpGgufFile *input, const char *path) {
    struct stat            info;
    const RpGgufMap       *map = &input->map;
    const struct timespec *old = &map->mtime, *now = &info.st_mtim;
    for (int i = 0; i < input->parts.n_files; i++) RP_TRY(rp_gguf_refuse_output(input->parts.files[i], path));
    if (map->inode == 0 || stat(path, &info) != 0) return RP_OK;
    const bool same = info.st_dev == map->device && info.st_ino == map->inode && now->tv_sec == old->tv_sec &&
                      now->tv_nsec == old->tv_nsec;
    if (!same) return RP_OK;
    return rp_fail(RP_E_ARG, "%s and %s are the same file: an output must not be an input", path, input->path);
}

void rp_gguf_unmap(RpGgufMap *map, size_t bytes) {
    if (map->data != NULL) munmap(map->data, bytes);
    if (map->fd >= 0) close(map->fd);
    *map = (RpGgufMap){.fd = -1};
}
