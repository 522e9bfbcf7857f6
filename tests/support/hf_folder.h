/* hf_folder.h - a Hugging Face directory that a test writes file by file. One at a time: `folder`. */
#ifndef TESTS_SUPPORT_HF_FOLDER_H
#define TESTS_SUPPORT_HF_FOLDER_H

#include "tests/support/golden.h"

#include <dirent.h>

static char folder[64];

static inline void hf_begin(void) {
    snprintf(folder, sizeof folder, "/tmp/reprise-hf-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static inline void hf_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

static inline void hf_write(const char *name, const void *data, size_t bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "%s", path);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes, "%s", path);
    fclose(f);
}

/* The file dir/name below tests/golden, at most 1 MiB, in a block of 2 MiB that the caller frees; zeros follow it. */
static inline char *hf_read_golden(const char *dir, const char *name, size_t *bytes) {
    enum { ROOM = 1 << 20 };
    char path[512], *p = calloc(2, ROOM);
    snprintf(path, sizeof path, GOLDEN_DIR "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && p != NULL, "%s", path);
    *bytes = fread(p, 1, ROOM, f);
    fclose(f);
    return p;
}

/* Copies a file below tests/golden to the folder. */
static inline void hf_copy(const char *dir, const char *name) {
    size_t n;
    char  *p = hf_read_golden(dir, name, &n);
    hf_write(name, p, n);
    free(p);
}

/* A file below tests/golden with the first `from` replaced; both may be NULL. */
static inline void hf_change(const char *dir, const char *name, const char *from, const char *to) {
    size_t n;
    char  *p = hf_read_golden(dir, name, &n);
    if (from != NULL) {
        const size_t n_from = strlen(from), n_to = strlen(to);
        char        *at = memmem(p, n, from, n_from);
        cr_assert_not_null(at, "%s/%s: %s", dir, name, from);
        memmove(at + n_to, at + n_from, n - (size_t)(at - p) - n_from);
        memcpy(at, to, n_to);
        n = n + n_to - n_from;
    }
    hf_write(name, p, n);
    free(p);
}

/* dir/model.safetensors with one more tensor of `bytes` zeros. `type` and `shape` are those of its header. */
static inline void hf_add_tensor(const char *dir, const char *name, const char *type, const char *shape, size_t bytes) {
    size_t   n;
    uint64_t header;
    char     text[512], *p = hf_read_golden(dir, "model.safetensors", &n);
    memcpy(&header, p, sizeof header);
    char        *end  = memrchr(p, '}', sizeof header + (size_t)header);
    const size_t data = n - sizeof header - (size_t)header;
    cr_assert_not_null(end, "%s", dir);
    snprintf(text, sizeof text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}}", name, type,
             shape, data, data + bytes);
    const size_t more = strlen(text) - 1; /* the last brace is there already */
    memmove(end + more, end, n - (size_t)(end - p));
    memcpy(end, text, more);
    header += more;
    memcpy(p, &header, sizeof header);
    hf_write("model.safetensors", p, n + more + bytes); /* zeros follow the file in its block */
    free(p);
}

/* dir/name with the text of each pair, from and to, replaced once. */
static inline void hf_edit(const char *dir, const char *name, const char *const (*pairs)[2], int n_pairs) {
    size_t n;
    char  *p = hf_read_golden(dir, name, &n);
    for (int i = 0; i < n_pairs; i++) {
        const char *from = pairs[i][0], *to = pairs[i][1];
        char       *at = strstr(p, from);
        cr_assert_not_null(at, "%s/%s: %s", dir, name, from);
        memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
        memcpy(at, to, strlen(to));
    }
    hf_write(name, p, strlen(p));
    free(p);
}

/* dir/model.safetensors whose header has the texts of all pairs, from and to, replaced. `to` is shorter. */
static inline void hf_rename(const char *dir, const char *const (*pairs)[2], int n_pairs) {
    size_t   n;
    uint64_t header;
    char    *p = hf_read_golden(dir, "model.safetensors", &n), *text = p + sizeof header, *at;
    memcpy(&header, p, sizeof header);
    for (int i = 0; i < n_pairs; i++) {
        const size_t n_from = strlen(pairs[i][0]), n_to = strlen(pairs[i][1]);
        while ((at = memmem(text, (size_t)header, pairs[i][0], n_from)) != NULL) {
            memcpy(at, pairs[i][1], n_to);
            memmove(at + n_to, at + n_from, n - (size_t)(at - p) - n_from);
            header -= n_from - n_to;
            n -= n_from - n_to;
        }
    }
    memcpy(p, &header, sizeof header);
    hf_write("model.safetensors", p, n);
    free(p);
}

/* The files of weights of a directory. */
static inline void hf_copy_weights(const char *dir) {
    char path[512];
    snprintf(path, sizeof path, GOLDEN_DIR "%s", dir);
    DIR *d = opendir(path);
    cr_assert_not_null(d, "%s", path);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        if (strstr(entry->d_name, ".safetensors") != NULL) hf_change(dir, entry->d_name, NULL, NULL);
    closedir(d);
}

static inline RpStatus hf_open(void) {
    RpModel       *m  = NULL;
    const RpStatus st = rp_model_open(folder, NULL, &m);
    rp_model_free(m);
    return st;
}

static inline double hf_number(const RpGgufFile *f, const char *key) {
    const RpGgufValue *v = rp_gguf_find(f, key);
    cr_assert_not_null(v, "%s", key);
    return rp_gguf_number_at(v, 0);
}

/* The value of `key` for config.json of a golden directory with `from` replaced. */
static inline void hf_expect(const char *dir, const char *from, const char *to, const char *key, double want) {
    RpGgufFile *f;
    hf_begin();
    hf_change(dir, "config.json", from, to);
    hf_copy_weights(dir);
    OK(rp_gguf_open(folder, &f));
    const double got = hf_number(f, key);
    cr_expect_eq((float)got, (float)want, "%s, %s: %s is %.9g, not %.9g", dir, from, key, got, want);
    rp_gguf_close(f);
    hf_end();
}

static inline void hf_refuse_config(const char *dir, const char *from, const char *to, RpStatus status,
                                    const char *text) {
    hf_begin();
    hf_change(dir, "config.json", from, to);
    hf_copy_weights(dir);
    REFUSED(hf_open(), status, text);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

#endif
