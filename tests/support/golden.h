/* golden.h - reads the golden files (tests/golden/README.md), finds the real models, and defines OK and REFUSED. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "reprise/reprise.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN_DIR RP_SOURCE_DIR "/tests/golden/"

/* Asserts that the call succeeds; a failure shows rp_last_error(). */
#define OK(expr) cr_assert_eq((expr), RP_OK, "%s: %s", #expr, rp_last_error())

/* Asserts that the call fails with this status and an error text that contains `text`. */
#define REFUSED(expr, status, text)                                                                                    \
    do {                                                                                                               \
        cr_assert_eq((expr), (status), "%s: \"%s\"", #expr, rp_last_error());                                          \
        cr_assert_not_null(strstr(rp_last_error(), (text)), "\"%s\" does not say \"%s\"", rp_last_error(), (text));    \
    } while (0)

/* Opens a model of tests/golden/tiny; the caller frees it. */
static inline RpModel *golden_open_tiny(const char *name) {
    char     path[1024];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    return m;
}

/* The file of such a model, *n bytes; the caller frees. */
static inline char *golden_read_tiny(const char *name, size_t *n) {
    enum { ROOM = 1 << 20 };
    char path[1024], *p = malloc(ROOM);
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && p != NULL, "%s", path);
    *n = fread(p, 1, ROOM, f);
    cr_assert_lt(*n, (size_t)ROOM, "%s is larger than the buffer", path);
    fclose(f);
    return p;
}

/* The path of a real model; skips the test if it is not there. */
static inline const char *model_path(const char *file) {
    static char path[1024];
    const char *dir = getenv("REPRISE_MODELS");
    snprintf(path, sizeof path, "%s/%s", dir != NULL ? dir : RP_SOURCE_DIR "/models", file);
    if (access(path, R_OK) != 0) cr_skip_test("%s is not here: scripts/get-model.sh fetches it", path);
    return path;
}

#define SMOLLM2 "smollm2-135m-instruct-q4_1.gguf"
#define GEMMA3  "gemma3-270m-q4_k_m.gguf"

/* The next line that is not a comment, without its line end; NULL after the last. The caller frees *line. */
static inline char *golden_line(FILE *f, char **line, size_t *size) {
    ssize_t n;
    while ((n = getline(line, size, f)) > 0) {
        while (n > 0 && ((*line)[n - 1] == '\n' || (*line)[n - 1] == '\r')) (*line)[--n] = '\0';
        if ((*line)[0] != '#') return *line;
    }
    return NULL;
}

static inline FILE *golden_open(const char *name) {
    char path[2048];
    snprintf(path, sizeof path, GOLDEN_DIR "%s", name);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s is missing", path);
    return f;
}

/* Hexadecimal ("-" for no bytes) to bytes; the caller frees. Moves *text past it. */
static inline char *golden_hex(char **text, size_t *len) {
    char *p = *text, *out = malloc(strlen(p) / 2 + 1);
    *len = 0;
    if (*p == '-') p++;
    for (unsigned byte; sscanf(p, "%2x", &byte) == 1 && *p != ' '; p += 2) out[(*len)++] = (char)byte;
    *text = p;
    return out;
}

/* Whole numbers up to the end of the line, at most `room`. */
static inline size_t golden_ids(const char *text, int32_t *out, size_t room) {
    size_t n = 0;
    char  *end;
    for (;; text = end) {
        const long id = strtol(text, &end, 10);
        if (end == text || n == room) return n;
        out[n++] = (int32_t)id;
    }
}

static inline size_t golden_floats(const char *text, float *out, size_t room) {
    size_t n = 0;
    char  *end;
    for (;; text = end) {
        const float x = strtof(text, &end);
        if (end == text || n == room) return n;
        out[n++] = x;
    }
}

#endif
