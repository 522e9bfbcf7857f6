#include "grammar/grow.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

RpStatus rp_grow_bytes(void **p, size_t *room, size_t need, size_t size) {
    if (need <= *room) return RP_OK;
    size_t n = *room < 8 ? 8 : *room;
    while (n < need) n *= 2;
    void *grown = realloc(*p, n * size);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    *p    = grown;
    *room = n;
    return RP_OK;
}

RpStatus rp_table_reserve(IndexTable *t) {
    RP_TRY(RP_GROW(t->hashes, t->hash_room, t->n + 1));
    if (t->slots != NULL && (t->n + 1) * 4 <= (t->mask + 1) * 3) return RP_OK;
    const size_t n     = t->slots == NULL ? FIRST_SLOTS : (t->mask + 1) * 2;
    uint32_t    *slots = calloc(n, sizeof *slots);
    if (slots == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    for (size_t i = 0; i < t->n; i++) {
        size_t at = t->hashes[i] & (n - 1);
        while (slots[at] != 0) at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask  = n - 1;
    return RP_OK;
}

void rp_table_put(IndexTable *t, size_t at, uint32_t hash) {
    t->hashes[t->n] = hash;
    t->slots[at]    = (uint32_t)++t->n;
}

void rp_table_clear(IndexTable *t) {
    if (t->slots != NULL) memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    t->n = 0;
}

void rp_table_free(IndexTable *t) {
    free(t->slots);
    free(t->hashes);
    *t = (IndexTable){0};
}
