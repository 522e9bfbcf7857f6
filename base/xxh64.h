/* xxh64.h - the checksum XXH64 with seed 0 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md), over bytes that
 * come in any number of pieces. It finds damage and tells contents apart; it does not withstand an attacker. `xxhsum
 * -H64` and, for each tensor of a GGUF file, llama.cpp's `llama-gguf-hash --xxh64` compute the same. */
#ifndef BASE_XXH64_H
#define BASE_XXH64_H

#include "reprise/file.h" /* rp_xxh64, of bytes that are in one piece */

typedef struct RpXxh64 {
    uint64_t      lanes[4];
    uint64_t      total;
    unsigned char left[32]; /* the last total % 32 bytes */
} RpXxh64;

void     rp_xxh64_begin(RpXxh64 *h);
void     rp_xxh64_add(RpXxh64 *h, const void *p, size_t n);
uint64_t rp_xxh64_end(const RpXxh64 *h); /* of all bytes so far */

#endif
