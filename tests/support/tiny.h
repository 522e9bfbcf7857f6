/* tiny.h - the models of tests/golden/tiny. Tests take their lists from here, so that a new model is in all of them. */
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "model/arch_table.h"
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
    if (names.n > 0) return &names;
    DIR *dir = opendir(GOLDEN_DIR "tiny");
    cr_assert(dir != NULL, "%stiny", GOLDEN_DIR);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *end = strstr(entry->d_name, ".gguf");
        if (end != NULL) tiny_add(&names, entry->d_name, (size_t)(end - entry->d_name));
    }
    closedir(dir);
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

/* The architecture of a model. Its file is opened once: callers ask for every pair of a model and an architecture. */
static inline const char *tiny_arch(const char *name) {
    static TinyNames known;
    static char      arch[MAX_TINY][32];
    RpGgufString     found;
    int              at = 0;
    while (at < known.n && strcmp(known.name[at], name) != 0) at++;
    if (at < known.n) return arch[at];
    RpGgufFile *file = tiny_open(name);
    OK(rp_gguf_get_string(file, "general.architecture", &found));
    cr_assert(found.len > 0 && found.len < sizeof arch[0], "%s", name);
    tiny_add(&known, name, strlen(name));
    snprintf(arch[at], sizeof arch[0], "%.*s", (int)found.len, found.ptr);
    rp_gguf_close(file);
    return arch[at];
}

static inline bool tiny_is_of(const char *name, const char *arch) { return strcmp(tiny_arch(name), arch) == 0; }

/* Whether other suites have the models of an architecture: test_embed has encoders, test_engine_assistant
 * assistants. */
static inline bool tiny_is_elsewhere(const char *arch) {
    const ArchRow *row = rp_arch_find(arch, strlen(arch));
    return row->bidirectional || row->assistant;
}

/* The n models `given`, and for each architecture of the library that none of them has the last one that has it. */
static inline const TinyNames *tiny_families(const char *const *given, size_t n) {
    static TinyNames          names;
    static const char *const *made_of; /* tests ask again for each family */
    const TinyNames          *all = tiny_names();
    if (made_of == given) return &names;
    names.n = 0;
    for (size_t i = 0; i < n; i++) tiny_add(&names, given[i], strlen(given[i]));
    for (int a = 0; rp_arch_name(a) != NULL; a++) {
        int is = 0, last = all->n - 1;
        if (tiny_is_elsewhere(rp_arch_name(a))) continue;
        while (is < names.n && !tiny_is_of(names.name[is], rp_arch_name(a))) is++;
        if (is < names.n) continue;
        while (last >= 0 && !tiny_is_of(all->name[last], rp_arch_name(a))) last--;
        cr_assert_geq(last, 0, "tests/golden/tiny has no model of the family %s", rp_arch_name(a));
        tiny_add(&names, all->name[last], strlen(all->name[last]));
    }
    made_of = given;
    return &names;
}

#endif
