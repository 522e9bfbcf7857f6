/* strings.h - a hash table from byte strings to numbers 0, 1, ... The strings are borrowed.
 *
 *     strings[number]   capacity entries, in the order of insertion
 *     slots[rp_hash...] number + 1, or 0: free; open addressing with linear probing, at most half full
 */
#ifndef MODEL_TOKENIZER_STRINGS_H
#define MODEL_TOKENIZER_STRINGS_H

#include "reprise/gguf.h"

typedef struct StringTable {
    RpGgufString *strings;
    uint32_t     *slots;
    size_t        n, capacity, n_slots; /* n_slots = 2 * capacity, a power of two */
} StringTable;

/* The number of the string, or -1. */
int32_t rp_strings_find(const StringTable *t, const char *p, size_t len);

/* The number of the string, which is added at the end if it is new. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_strings_add(StringTable *t, RpGgufString s, int32_t *out);

/* Appends the string under the next number, even if it is in the table already: rp_strings_find goes on
 * returning the first. */
RP_NODISCARD RpStatus rp_strings_append(StringTable *t, RpGgufString s);

/* rp_strings_find returns `number` for its string from now on, not the first that has it. */
void rp_strings_prefer(StringTable *t, int32_t number);

void rp_strings_free(StringTable *t);

#endif
