/* The character on each side of a token decides (single_word.h). A word consists of what \w matches in Rust, the
 * language of the package tokenizers: the property Alphabetic (letters, Nl and enclosed letters), marks, decimal
 * digits, connector punctuation, and the joiners. */
#include "model/tokenizer/single_word.h"

#include "base/text/utf8.h"
#include "model/tokenizer/expression.h"

#include <stdlib.h>

struct WordCharacters {
    pcre2_code *expression;
};

static const char word[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}"
                           "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]";

RpStatus rp_word_characters_new(WordCharacters **out) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the characters of words");
    const RpStatus st =
        rp_expression_compile("characters of words", (RpGgufString){word, sizeof word - 1}, 0, &(*out)->expression);
    if (st == RP_OK) return RP_OK;
    rp_word_characters_free(*out);
    *out = NULL;
    return st;
}

void rp_word_characters_free(WordCharacters *w) {
    if (w == NULL) return;
    pcre2_code_free(w->expression);
    free(w);
}

/* Bytes of the character at the end of a text; 1 for an ill-formed byte, which is in no word. */
static size_t last_character(const char *text, size_t len) {
    for (size_t n = len < 4 ? len : 4; n > 0; n--)
        if (rp_utf8_length(text + len - n, n) == n) return n;
    return 0;
}

static RpStatus is_word(const WordCharacters *w, const char *p, size_t n, pcre2_match_data *room, bool *out) {
    ExpressionMatch m = {.found = false};
    if (n > 0) RP_TRY(rp_expression_next(w->expression, p, n, 0, room, &m));
    *out = m.found;
    return RP_OK;
}

RpStatus rp_is_single_word(const WordCharacters *w, const char *text, size_t len, size_t at, size_t n, bool *out) {
    const size_t      before = last_character(text, at), end = at + n;
    const size_t      behind = end < len ? rp_utf8_length(text + end, len - end) : 0;
    pcre2_match_data *room   = pcre2_match_data_create(1, NULL);
    bool              joined = false;
    *out                     = false;
    if (room == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising");
    RpStatus st = is_word(w, text + at - before, before, room, &joined);
    if (st == RP_OK && !joined) st = is_word(w, text + end, behind, room, &joined);
    pcre2_match_data_free(room);
    *out = !joined;
    return st;
}
