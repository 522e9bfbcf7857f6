/* checksums.h - XXH64 written down from its specification a second time, one byte after the other and without pieces,
 * and the checksums of a trainer's file made again after a change of its bytes. */
#ifndef TESTS_TRAIN_CHECKSUMS_H
#define TESTS_TRAIN_CHECKSUMS_H

#include "tests/support/golden.h"

static const uint64_t xx_primes[5] = {11400714785074694791u, 14029467366897019727u, 1609587929392839161u,
                                      9650029242287828579u, 2870177450012600261u};

static inline uint64_t xx_turn(uint64_t x, int n) { return (x << n) | (x >> (64 - n)); }

static inline uint64_t xx_number(const unsigned char *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes; i-- > 0;) x = x << 8 | p[i];
    return x;
}

static inline uint64_t xx_round(uint64_t acc, uint64_t lane) {
    return xx_turn(acc + lane * xx_primes[1], 31) * xx_primes[0];
}

static inline uint64_t xx_hash(const void *data, size_t n) {
    const unsigned char *p = data, *end = p + n;
    uint64_t             h = xx_primes[4];
    if (n >= 32) {
        uint64_t v1 = xx_primes[0] + xx_primes[1], v2 = xx_primes[1], v3 = 0, v4 = 0 - xx_primes[0];
        for (; end - p >= 32; p += 32) {
            v1 = xx_round(v1, xx_number(p, 8)), v2 = xx_round(v2, xx_number(p + 8, 8));
            v3 = xx_round(v3, xx_number(p + 16, 8)), v4 = xx_round(v4, xx_number(p + 24, 8));
        }
        h = xx_turn(v1, 1) + xx_turn(v2, 7) + xx_turn(v3, 12) + xx_turn(v4, 18);
        h = (h ^ xx_round(0, v1)) * xx_primes[0] + xx_primes[3];
        h = (h ^ xx_round(0, v2)) * xx_primes[0] + xx_primes[3];
        h = (h ^ xx_round(0, v3)) * xx_primes[0] + xx_primes[3];
        h = (h ^ xx_round(0, v4)) * xx_primes[0] + xx_primes[3];
    }
    h += n;
    for (; end - p >= 8; p += 8) h = xx_turn(h ^ xx_round(0, xx_number(p, 8)), 27) * xx_primes[0] + xx_primes[3];
    for (; end - p >= 4; p += 4) h = xx_turn(h ^ xx_number(p, 4) * xx_primes[0], 23) * xx_primes[1] + xx_primes[2];
    for (; p < end; p++) h = xx_turn(h ^ *p * xx_primes[4], 11) * xx_primes[0];
    h = (h ^ h >> 33) * xx_primes[1];
    h = (h ^ h >> 29) * xx_primes[2];
    return h ^ h >> 32;
}

/* The value of a key, in the bytes of a file that has no damage; NULL without the key. */
static inline char *value_in(char *bytes, size_t n, const char *key) {
    RpGgufFile *f;
    char       *at = NULL;
    OK(rp_gguf_open_memory(bytes, n, "bytes", &f));
    const RpGgufValue *v = rp_gguf_find(f, key);
    if (v != NULL) at = bytes + ((const char *)v->data - bytes);
    rp_gguf_close(f);
    return at;
}

/* The data of a tensor, in the bytes of a file that has no damage; NULL without the tensor. */
static inline char *data_in(char *bytes, size_t n, const char *name) {
    RpGgufFile *f;
    OK(rp_gguf_open_memory(bytes, n, "bytes", &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    cr_assert_not_null(t, "%s", name);
    char *at = bytes + ((const char *)t->view.data - bytes);
    rp_gguf_close(f);
    return at;
}

/* The bytes before the data of the first tensor. */
static inline size_t head_of(const char *bytes, size_t n) {
    RpGgufFile *f;
    OK(rp_gguf_open_memory(bytes, n, "bytes", &f));
    const size_t head = (size_t)((const char *)rp_gguf_tensor(f, 0)->view.data - bytes);
    rp_gguf_close(f);
    return head;
}

/* The whole file; the caller frees. */
static inline char *read_whole(const char *path, size_t *n) {
    enum { ROOM = 1 << 22 };
    char *bytes = malloc(ROOM);
    FILE *f     = fopen(path, "rb");
    cr_assert(f != NULL && bytes != NULL, "%s", path);
    *n = fread(bytes, 1, ROOM, f);
    cr_assert_lt(*n, (size_t)ROOM);
    fclose(f);
    return bytes;
}

/* A new file each time: ext4 writes one that is truncated to the disk at once. */
static inline void write_whole(const char *path, const char *bytes, size_t n) {
    (void)remove(path);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, n, f), n);
    cr_assert_eq(fclose(f), 0);
}

#endif
