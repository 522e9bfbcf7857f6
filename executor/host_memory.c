/* The memory of the host (host_memory.h). A group of version 2 has the files memory.max, memory.current and
 * memory.stat, one of version 1 memory.limit_in_bytes, memory.usage_in_bytes and memory.stat, whose sums begin with
 * "total_". */
#include "executor/host_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 1024 };

static FILE *open_file(const char *folder, const char *name) {
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return NULL;
    return fopen(path, "r");
}

/* A file with a number, or with the word max. */
static bool read_number(const char *folder, const char *name, uint64_t *out) {
    FILE *f                = open_file(folder, name);
    char  line[LINE_BYTES] = "";
    *out                   = UINT64_MAX;
    if (f == NULL) return false;
    const bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    return read && (strncmp(line, "max", 3) == 0 || sscanf(line, "%" SCNu64, out) == 1);
}

/* Bytes of the pages of files, which the system can drop. */
static uint64_t file_pages(const char *folder, bool version1) {
    FILE    *f = open_file(folder, "memory.stat");
    char     line[LINE_BYTES], key[64];
    uint64_t sum = 0, bytes;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%63s %" SCNu64, key, &bytes) != 2) continue;
        const char *name = version1 && strncmp(key, "total_", 6) == 0 ? key + 6 : version1 ? "" : key;
        if (strcmp(name, "inactive_file") == 0 || strcmp(name, "active_file") == 0) sum += bytes;
    }
    if (f != NULL) fclose(f);
    return sum;
}

static uint64_t free_in(const char *folder, bool version1) {
    uint64_t limit, used;
    if (!read_number(folder, version1 ? "memory.limit_in_bytes" : "memory.max", &limit) ||
        !read_number(folder, version1 ? "memory.usage_in_bytes" : "memory.current", &used) || limit == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t pages = file_pages(folder, version1), held = used > pages ? used - pages : 0;
    return limit > held ? limit - held : 0;
}

/* The least that the group at `path` and the groups above it leave. In a container the path may be that of the host,
 * and the folders below `mount` are missing; then the limit of `mount` is the container's. */
static uint64_t free_up_from(const char *mount, const char *path, bool version1) {
    char     folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", mount, version1 ? "/memory" : "", path) >= sizeof folder)
        return least;
    const size_t top = strlen(mount) + (version1 ? strlen("/memory") : 0);
    for (;;) {
        const uint64_t here = free_in(folder, version1);
        if (here < least) least = here;
        char *end = strrchr(folder, '/');
        if (end == NULL || (size_t)(end - folder) < top) return least;
        *end = '\0';
    }
}

/* Whether the comma-separated controllers of a line have that of memory. */
static bool has_memory(const char *controllers) {
    for (const char *at = controllers; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == strlen("memory") && strncmp(at, "memory", strlen("memory")) == 0) return true;
    return false;
}

size_t rp_control_groups_free(const char *groups, const char *mount) {
    FILE    *f     = fopen(groups, "r");
    uint64_t least = UINT64_MAX;
    char     line[LINE_BYTES];
    while (f != NULL && fgets(line, sizeof line, f) != NULL) { /* number:controllers:path */
        char *controllers = strchr(line, ':'), *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) continue;
        *path++                   = '\0';
        path[strcspn(path, "\n")] = '\0';
        const bool version2       = controllers[1] == '\0';
        if (!version2 && !has_memory(controllers + 1)) continue;
        const uint64_t left = free_up_from(mount, path, !version2);
        if (left < least) least = left;
    }
    if (f != NULL) fclose(f);
    return least < SIZE_MAX ? (size_t)least : SIZE_MAX;
}

static size_t available(void) {
    FILE    *f  = fopen("/proc/meminfo", "r");
    uint64_t kb = 0;
    char     line[LINE_BYTES];
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kb) == 1) break;
    if (f != NULL) fclose(f);
    return (size_t)kb * 1024;
}

size_t rp_host_memory_free(void) {
    const size_t all = available(), left = rp_control_groups_free("/proc/self/cgroup", "/sys/fs/cgroup");
    return left < all ? left : all;
}
