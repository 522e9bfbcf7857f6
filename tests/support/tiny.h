/* tiny.h - the models of tests/golden/tiny. Tests take their lists from here, so that a new model is in all of them. */
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "tests/support/golden.h"

#include <dirent.h>

enum { MAX_TINY = 256 };

typedef struct TinyNames {
    char name[MAX_TINY][48]; /* without ".gguf" */
    int  n;
} TinyNames;

static inline void tiny_add(TinyNames *names, const char *name, size_t len) {
    cr_assert(names->n < MAX_TINY && len < sizeof names->name[0], "%d models, %s", names->n, name);
    snprintf(names->name[names->n++], sizeof names->name[0], "%.*s", (int)len, name);
}

static inline int tiny_order(const void *a, const void *b) { return strcmp(a, b); }

/* All, by name. */
static inline const TinyNames *tiny_names(void) {
    static TinyNames names;
    DIR             *dir = names.n == 0 ? opendir(GOLDEN_DIR "tiny") : NULL;
    cr_assert(names.n > 0 || dir != NULL, "%stiny", GOLDEN_DIR);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *end = strstr(entry->d_name, ".gguf");
        if (end != NULL) tiny_add(&names, entry->d_name, (size_t)(end - entry->d_name));
    }
    if (dir != NULL) closedir(dir);
    qsort(names.name, (size_t)names.n, sizeof names.name[0], tiny_order);
    return &names;
}

static inline RpGgufFile *tiny_open(const char *name) {
    RpGgufFile *file;
    char        path[1024];
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_gguf_open(path, &file));
    return file;
}

static inline bool tiny_is_of(const char *name, const char *arch) {
    RpGgufString found;
    RpGgufFile  *file = tiny_open(name);
    OK(rp_gguf_get_string(file, "general.architecture", &found));
    const bool is = found.len == strlen(arch) && memcmp(found.ptr, arch, found.len) == 0;
    rp_gguf_close(file);
    return is;
}

/* The n models `given`, and for each architecture of the library that none of them has the last one that has it. */
static inline const TinyNames *tiny_families(const char *const *given, size_t n) {
    static TinyNames names;
    const TinyNames *all = tiny_names();
    names.n              = 0;
    for (size_t i = 0; i < n; i++) tiny_add(&names, given[i], strlen(given[i]));
    for (int a = 0; rp_arch_name(a) != NULL; a++) {
        int is = 0, last = all->n - 1;
        while (is < names.n && !tiny_is_of(names.name[is], rp_arch_name(a))) is++;
        if (is < names.n) continue;
        while (last >= 0 && !tiny_is_of(all->name[last], rp_arch_name(a))) last--;
        cr_assert_geq(last, 0, "tests/golden/tiny has no model of the family %s", rp_arch_name(a));
        tiny_add(&names, all->name[last], strlen(all->name[last]));
    }
    return &names;
}

#endif
