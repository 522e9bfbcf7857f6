/* The files that inputs start from, how they are read and written, and the mutator. */
#include "tests/fuzz/file_edit.h"

#include "base/xxh64.h"
#include "model/gguf/gguf_checksum.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

const char *const fuzz_vocabulary[] = {"tokenizer/smollm",       "tokenizer/spm",     "tokenizer/llama-bpe",
                                       "tokenizer/qwen2",        "tokenizer/tekken",  "tokenizer/spm-no-prefix",
                                       "tokenizer/deepseek-llm", "tokenizer/default", "tokenizer/gpt-4o",
                                       "tokenizer/deepseek-v3",  "tokenizer/gpt-2",   NULL};

static int order(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

const char *const *fuzz_tiny(void) {
    static const char *names[FUZZ_FILES + 1];
    size_t             n      = 0;
    DIR               *folder = names[0] == NULL ? opendir(RP_SOURCE_DIR "/tests/golden/tiny") : NULL;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const char *end = strstr(entry->d_name, ".gguf");
        char       *name;
        if (end == NULL || n == FUZZ_FILES) continue;
        if (asprintf(&name, "tiny/%.*s", (int)(end - entry->d_name), entry->d_name) < 0) abort();
        names[n++] = name;
    }
    if (folder != NULL) closedir(folder), qsort(names, n, sizeof names[0], order);
    return names;
}

static bool is_float(const RpGgufFile *file) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(file); i++)
        if (rp_dtype_is_quant(rp_gguf_tensor(file, i)->view.dtype)) return false;
    return true;
}

const char *const *fuzz_float(void) {
    static const char *names[FUZZ_FILES + 1];
    const bool         read = names[0] != NULL;
    size_t             n    = 0;
    for (size_t i = 0; !read && fuzz_tiny()[i] != NULL; i++)
        if (is_float(fuzz_golden(fuzz_tiny(), i))) names[n++] = fuzz_tiny()[i];
    return names;
}

const RpGgufFile *fuzz_golden(const char *const *list, size_t i) {
    static struct {
        const char *name;
        RpGgufFile *file;
    } open[FUZZ_FILES];
    size_t n = 0, at = 0;
    while (list[n] != NULL) n++;
    const char *name = list[i % n];
    while (open[at].name != NULL && open[at].name != name) at++;
    if (open[at].file == NULL) {
        char path[1024];
        snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/%s.gguf", name);
        if (rp_gguf_open(path, &open[at].file) != RP_OK) {
            fprintf(stderr, "%s\n", rp_last_error());
            exit(1);
        }
        open[at].name = name;
    }
    return open[at].file;
}

static void *copy(const void *from, size_t n) {
    char *p = malloc(n + 1);
    if (p == NULL) abort();
    memcpy(p, from, n);
    return p;
}

static size_t value_bytes(const RpGgufValue *v) {
    static const size_t sizes[RP_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (v->elem_type != RP_GGUF_STRING) return sizes[v->elem_type] * (size_t)v->n;
    const void *cursor = v->data;
    for (uint64_t i = 0; i < v->n; i++) (void)rp_gguf_next_string(&cursor);
    return (size_t)((const char *)cursor - (const char *)v->data);
}

static void name_of(char *out, size_t room, RpGgufString s) { snprintf(out, room, "%.*s", (int)s.len, s.ptr); }

static void read_file(FuzzFile *f, const RpGgufFile *from) {
    *f = (FuzzFile){0};
    for (int64_t i = 0; i < rp_gguf_n_values(from) && i < FUZZ_VALUES; i++) {
        const RpGgufValue *v   = rp_gguf_value(from, i);
        FuzzValue         *out = &f->values[f->n_values++];
        *out = (FuzzValue){.type = v->type, .elem_type = v->elem_type, .n = v->n, .bytes = value_bytes(v)};
        name_of(out->key, sizeof out->key, v->key);
        out->data = copy(v->data, out->bytes);
    }
    for (int64_t i = 0; i < rp_gguf_n_tensors(from) && i < FUZZ_TENSORS; i++) {
        const RpGgufTensor *t   = rp_gguf_tensor(from, i);
        FuzzTensor         *out = &f->tensors[f->n_tensors++];
        *out                    = (FuzzTensor){.type = t->gguf_type, .bytes = t->bytes};
        memcpy(out->ne, t->view.ne, sizeof out->ne);
        name_of(out->name, sizeof out->name, t->name);
        out->data = copy(t->view.data, t->bytes);
    }
}

/* ---- writing ---- */

static void put(FuzzFile *f, const void *data, size_t n) {
    if (n > 0) memcpy(f->bytes + f->n, data, n);
    f->n += n;
}

static void put_u32(FuzzFile *f, uint32_t x) { put(f, &x, sizeof x); }
static void put_u64(FuzzFile *f, uint64_t x) { put(f, &x, sizeof x); }

static void put_text(FuzzFile *f, const char *text) {
    put_u64(f, strlen(text));
    put(f, text, strlen(text));
}

static void pad(FuzzFile *f) {
    while (f->n % 32 != 0) put(f, "", 1);
}

/* Offsets of the checksums in a file that a trainer wrote (model/gguf/gguf_checksum.h); 0: it has none. */
typedef struct Checksums {
    size_t metadata, tensors;
} Checksums;

static bool is_key(const FuzzValue *v, const char *key, RpGgufType type) {
    return strcmp(v->key, key) == 0 && v->type == type && v->elem_type == RP_GGUF_U64;
}

/* An edit of the tensors leaves a checksum for each. */
static void fit_checksums(FuzzFile *f) {
    for (int i = 0; i < f->n_values; i++) {
        FuzzValue *v = &f->values[i];
        if (!is_key(v, GGUF_KEY_TENSORS, RP_GGUF_ARRAY)) continue;
        free(v->data);
        v->n     = (uint64_t)f->n_tensors;
        v->bytes = (size_t)f->n_tensors * sizeof(uint64_t);
        v->data  = calloc(1, v->bytes + 1);
        if (v->data == NULL) abort();
    }
}

/* The checksums of what the file holds now. */
static void seal(FuzzFile *f, const Checksums *at, size_t data) {
    uint64_t sum;
    for (int i = 0; at->tensors > 0 && i < f->n_tensors; i++) {
        sum = rp_xxh64(f->tensors[i].data, f->tensors[i].bytes);
        memcpy(f->bytes + at->tensors + (size_t)i * sizeof sum, &sum, sizeof sum);
    }
    if (at->metadata == 0) return;
    memset(f->bytes + at->metadata, 0, sizeof sum);
    sum = rp_xxh64(f->bytes, data);
    memcpy(f->bytes + at->metadata, &sum, sizeof sum);
}

static void write_file(FuzzFile *f, bool sealed) {
    Checksums at   = {0};
    size_t    room = 256, offset = 0;
    if (sealed) fit_checksums(f);
    for (int i = 0; i < f->n_values; i++) room += f->values[i].bytes + 128;
    for (int i = 0; i < f->n_tensors; i++) room += f->tensors[i].bytes + 256;
    f->bytes = malloc(room);
    if (f->bytes == NULL) abort();
    put(f, "GGUF", 4), put_u32(f, 3), put_u64(f, (uint64_t)f->n_tensors), put_u64(f, (uint64_t)f->n_values);
    for (int i = 0; i < f->n_values; i++) {
        const FuzzValue *v = &f->values[i];
        put_text(f, v->key), put_u32(f, (uint32_t)v->type);
        if (v->type == RP_GGUF_ARRAY) put_u32(f, (uint32_t)v->elem_type), put_u64(f, v->n);
        if (is_key(v, GGUF_KEY_METADATA, RP_GGUF_U64)) at.metadata = f->n;
        if (is_key(v, GGUF_KEY_TENSORS, RP_GGUF_ARRAY)) at.tensors = f->n;
        put(f, v->data, v->bytes);
    }
    for (int i = 0; i < f->n_tensors; i++) {
        const FuzzTensor *t = &f->tensors[i];
        put_text(f, t->name), put_u32(f, RP_MAX_DIMS);
        for (int d = 0; d < RP_MAX_DIMS; d++) put_u64(f, (uint64_t)t->ne[d]);
        put_u32(f, t->type), put_u64(f, offset);
        offset += (t->bytes + 31) / 32 * 32;
    }
    pad(f);
    const size_t data = f->n;
    for (int i = 0; i < f->n_tensors; i++) put(f, f->tensors[i].data, f->tensors[i].bytes), pad(f);
    if (sealed) seal(f, &at, data);
}

enum { EDIT_BYTE = 30, EDIT_CUT = 31 };

/* Edits of the written file: a byte, or the length. The ends of files matter more than their middle. */
static void edit_bytes(FuzzFile *f, const uint8_t e[FUZZ_EDIT]) {
    uint32_t value;
    memcpy(&value, e + 4, sizeof value);
    if (e[0] % 32 == EDIT_BYTE) f->bytes[value % f->n] = (char)e[2];
    if (e[0] % 32 == EDIT_CUT) f->n = f->n - value % f->n;
}

void fuzz_file_make_from(FuzzFile *f, const RpGgufFile *from, const uint8_t *data, size_t size) {
    size_t n = size > FUZZ_HEAD ? (size - FUZZ_HEAD) / FUZZ_EDIT : 0;
    if (n > FUZZ_MAX_EDITS) n = FUZZ_MAX_EDITS;
    read_file(f, from);
    for (size_t i = 0; i < n; i++) fuzz_file_edit(f, data + FUZZ_HEAD + i * FUZZ_EDIT);
    write_file(f, size < FUZZ_HEAD || (data[7] & 1) == 0);
    for (size_t i = 0; i < n; i++) edit_bytes(f, data + FUZZ_HEAD + i * FUZZ_EDIT);
}

void fuzz_file_make(FuzzFile *f, const char *const *list, const uint8_t *data, size_t size) {
    fuzz_file_make_from(f, fuzz_golden(list, size > 0 ? data[0] : 0), data, size);
}

void fuzz_file_free(FuzzFile *f) {
    for (int i = 0; i < f->n_values; i++) free(f->values[i].data);
    for (int i = 0; i < f->n_tensors; i++) free(f->tensors[i].data);
    free(f->bytes);
}

/* ---- findings and files in memory ---- */

void fuzz_expect(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s; the last error: %s\n", what, rp_last_error());
    __builtin_trap();
}

void fuzz_path(char path[64], const char *name) { snprintf(path, 64, "/dev/shm/fuzz-%d-%s", (int)getpid(), name); }

void fuzz_save(const char *path, const void *bytes, size_t n) {
    FILE      *out = fopen(path, "wb");
    const bool ok  = out != NULL && fwrite(bytes, 1, n, out) == n;
    fuzz_expect(out != NULL && fclose(out) == 0 && ok, "a file in memory cannot be written");
}

/* ---- mutation ---- */

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

size_t fuzz_mutate(uint8_t *data, size_t size, size_t room, unsigned seed) {
    const size_t n = size > FUZZ_HEAD ? (size - FUZZ_HEAD) / FUZZ_EDIT : 0;
    if (size < FUZZ_HEAD) memset(data + size, 0, FUZZ_HEAD - size);
    size            = FUZZ_HEAD + n * FUZZ_EDIT;
    uint8_t   *edit = data + FUZZ_HEAD + (n > 0 ? next(&seed) % n : 0) * FUZZ_EDIT;
    const int  what = (int)(next(&seed) % 8);
    const bool full = n == FUZZ_MAX_EDITS || size + FUZZ_EDIT > room;
    if (what == 0) {
        data[next(&seed) % FUZZ_HEAD] = (uint8_t)next(&seed);
    } else if (what == 1 && n > 0) {
        memmove(edit, edit + FUZZ_EDIT, (size_t)(data + size - edit) - FUZZ_EDIT);
        size -= FUZZ_EDIT;
    } else if ((what <= 4 || n == 0) && !full) { /* a new edit at the end */
        for (int i = 0; i < FUZZ_EDIT; i++) data[size++] = (uint8_t)next(&seed);
        if (next(&seed) % 2 == 0) data[size - 1] = data[size - 2] = data[size - 3] = 0; /* a small value */
    } else if (n > 0) {
        LLVMFuzzerMutate(edit, FUZZ_EDIT, FUZZ_EDIT);
    }
    return size;
}
