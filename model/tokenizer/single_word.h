/* single_word.h - added tokens that are found as words of their own alone ("single_word" of tokenizer.json): neither
 * behind nor in front of a character of a word. */
#ifndef MODEL_TOKENIZER_SINGLE_WORD_H
#define MODEL_TOKENIZER_SINGLE_WORD_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct WordCharacters WordCharacters;

/* Compiles the class \w of the package tokenizers. The caller frees *out. RP_E_NOT_AVAILABLE, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_word_characters_new(WordCharacters **out);
void                  rp_word_characters_free(WordCharacters *w);

/* Whether the n bytes at text[at] are a word of their own. RP_E_UNSUPPORTED: PCRE2 gave up; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_is_single_word(const WordCharacters *w, const char *text, size_t len, size_t at, size_t n,
                                        bool *out);

#endif
