/* charsmap.h - the precompiled map of strings of SentencePiece models (charsmap.c). */
#ifndef MODEL_TOKENIZER_CHARSMAP_H
#define MODEL_TOKENIZER_CHARSMAP_H

#include "reprise/gguf.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Charsmap {
    char  *bytes; /* [n_bytes] nodes and replacements, owned; NULL: there is no map */
    size_t n_bytes, n_nodes;
} Charsmap;

/* Copies the map of a file, if it has one. RP_E_FORMAT, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_charsmap_read(Charsmap *map, const RpGgufFile *f);

/* The longest, or the shortest, string of the map that begins the text, and what replaces it. *used is its length; 0:
 * there is none. RP_E_FORMAT: the map is damaged. */
RP_NODISCARD RpStatus rp_charsmap_find(const Charsmap *map, const char *text, size_t len, bool shortest, size_t *used,
                                       RpGgufString *by);

/* Normalises the next bytes of the text. A character that no string of the map begins is kept; a byte that is not UTF-8
 * becomes U+FFFD. */
RP_NODISCARD RpStatus rp_charsmap_next(const Charsmap *map, const char *text, size_t len, bool shortest, size_t *used,
                                       RpGgufString *by);

#endif
