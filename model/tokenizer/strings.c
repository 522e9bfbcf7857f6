/* A hash table of borrowed byte strings, for vocabularies. Layout in strings.h. */
#include "model/tokenizer/strings.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* The slot of the string, or the free one where it would go. */
static size_t slot_of(const StringTable *t, const char *p, size_t len) {
    size_t s = (size_t)rp_hash(p, len) & (t->n_slots - 1);
    for (; t->slots[s] != 0; s = (s + 1) & (t->n_slots - 1)) {
        const RpGgufString *x = &t->strings[t->slots[s] - 1];
        if (x->len == len && memcmp(x->ptr, p, len) == 0) break;
    }
    return s;
}

int32_t rp_strings_find(const StringTable *t, const char *p, size_t len) {
    return t->n_slots == 0 ? -1 : (int32_t)t->slots[slot_of(t, p, len)] - 1;
}

/* Doubles the table and inserts all strings again; of equal ones the first keeps the slot. */
static RpStatus grow(StringTable *t) {
    const size_t  capacity = t->capacity == 0 ? 256 : 2 * t->capacity;
    RpGgufString *strings  = realloc(t->strings, capacity * sizeof *strings);
    if (strings == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a table of %zu strings", capacity);
    t->strings      = strings;
    uint32_t *slots = calloc(2 * capacity, sizeof *slots);
    if (slots == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a table of %zu strings", capacity);
    free(t->slots);
    t->slots    = slots;
    t->capacity = capacity;
    t->n_slots  = 2 * capacity;
    for (size_t i = 0; i < t->n; i++) {
        const size_t s = slot_of(t, t->strings[i].ptr, t->strings[i].len);
        if (t->slots[s] == 0) t->slots[s] = (uint32_t)i + 1;
    }
    return RP_OK;
}

RpStatus rp_strings_append(StringTable *t, RpGgufString string) {
    if (t->n >= INT32_MAX / 2) return rp_fail(RP_E_FORMAT, "too many strings");
    if (t->n == t->capacity) RP_TRY(grow(t));
    const size_t s = slot_of(t, string.ptr, string.len);
    if (t->slots[s] == 0) t->slots[s] = (uint32_t)t->n + 1;
    t->strings[t->n++] = string;
    return RP_OK;
}

void rp_strings_prefer(StringTable *t, int32_t number) {
    const RpGgufString s               = t->strings[number];
    t->slots[slot_of(t, s.ptr, s.len)] = (uint32_t)number + 1;
}

RpStatus rp_strings_add(StringTable *t, RpGgufString s, int32_t *out) {
    *out = rp_strings_find(t, s.ptr, s.len);
    if (*out >= 0) return RP_OK;
    *out = (int32_t)t->n;
    return rp_strings_append(t, s);
}

void rp_strings_free(StringTable *t) {
    free(t->strings);
    free(t->slots);
    *t = (StringTable){0};
}
