/* gguf_writer.h - writes valid and invalid GGUF files in memory, field by field: header, keys, tensors, data. */
#ifndef TESTS_GGUF_WRITER_H
#define TESTS_GGUF_WRITER_H

#include "tests/support/golden.h"

typedef struct Bytes {
    unsigned char *p;
    size_t         n, capacity;
} Bytes;

static inline void put_bytes(Bytes *b, const void *p, size_t n) {
    if (n == 0) return;
    if (b->n + n > b->capacity) b->p = realloc(b->p, b->capacity = 2 * (b->n + n));
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_u32(Bytes *b, uint32_t x) { put_bytes(b, &x, sizeof x); }
static inline void put_u64(Bytes *b, uint64_t x) { put_bytes(b, &x, sizeof x); }

static inline void put_string(Bytes *b, const char *s) {
    put_u64(b, strlen(s));
    put_bytes(b, s, strlen(s));
}

static inline void put_header(Bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_values) {
    put_bytes(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_values);
}

static inline void put_key(Bytes *b, const char *key, uint32_t type) {
    put_string(b, key);
    put_u32(b, type);
}

static inline void put_key_u32(Bytes *b, const char *key, uint32_t x) {
    put_key(b, key, RP_GGUF_U32);
    put_u32(b, x);
}

static inline void put_key_string(Bytes *b, const char *key, const char *s) {
    put_key(b, key, RP_GGUF_STRING);
    put_string(b, s);
}

static inline void put_key_strings(Bytes *b, const char *key, const char *const *s, size_t n) {
    put_key(b, key, RP_GGUF_ARRAY);
    put_u32(b, RP_GGUF_STRING);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) put_string(b, s[i]);
}

static inline void put_key_array(Bytes *b, const char *key, RpGgufType type, const void *data, size_t n) {
    put_key(b, key, RP_GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, n);
    put_bytes(b, data, 4 * n);
}

static inline void put_tensor(Bytes *b, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t offset) {
    put_string(b, name);
    put_u32(b, 2);
    put_u64(b, ne0);
    put_u64(b, ne1);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void put_data(Bytes *b, size_t n) {
    while (b->n % 32 != 0) put_bytes(b, "", 1);
    for (size_t i = 0; i < n; i++) put_bytes(b, "", 1);
}

#endif
