/* strings.h - a table from byte strings to numbers. The strings are borrowed. */
#ifndef MODEL_STRINGS_H
#define MODEL_STRINGS_H

#include "reprise/gguf.h"

typedef struct StringTable {
    GgufString *strings; /* by number */
    uint32_t   *slots;   /* number + 1, or 0 */
    size_t      n, capacity, n_slots;
} StringTable;

/* The number of the string, or -1. */
int32_t rp_strings_find(const StringTable *t, const char *p, size_t len);

/* The number of the string, added at the end where it is new. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_strings_add(StringTable *t, GgufString s, int32_t *out);

/* Appends the string under the next number even where it is there already: the first number stays the one
 * found. */
RP_NODISCARD RpStatus rp_strings_append(StringTable *t, GgufString s);

void rp_strings_free(StringTable *t);

#endif
