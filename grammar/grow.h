/* grow.h - arrays that grow, and open-addressing tables of indices into them. */
#ifndef GRAMMAR_GROW_H
#define GRAMMAR_GROW_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>

/* Makes room for `need` elements of `size` bytes; *room doubles. RP_E_NOMEM leaves the array as it was. */
RP_NODISCARD RpStatus rp_grow_bytes(void **p, size_t *room, size_t need, size_t size);

/* RP_GROW(array, room, need): array is a pointer of any type, room a size_t. */
#define RP_GROW(p, room, need) rp_grow_bytes((void **)&(p), &(room), (need), sizeof *(p))

/* A set of indices by the hash of what they stand for. slots[i] is an index plus 1, or 0; hashes[] has the hash of each
 * index, for growing. */
typedef struct IndexTable {
    uint32_t *slots, *hashes;
    size_t    n, mask, hash_room; /* entries; slots - 1 */
} IndexTable;

/* Makes room for one more entry. */
RP_NODISCARD RpStatus rp_table_reserve(IndexTable *t);
void                  rp_table_free(IndexTable *t);
void                  rp_table_clear(IndexTable *t);

/* Puts index t->n, which is new, with its hash into slot `at`. */
void rp_table_put(IndexTable *t, size_t at, uint32_t hash);

static inline uint32_t rp_mix(uint32_t h, uint32_t x) {
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ (h >> 15);
}

#endif
