/* pattern_class.h - where a regular expression is read, and its classes. */
#ifndef GRAMMAR_PATTERN_CLASS_H
#define GRAMMAR_PATTERN_CLASS_H

#include "grammar/charset.h"

typedef struct Pattern {
    const char *text, *at, *end;
    RxPool     *pool;
    unsigned    flags;
    int         depth;
    bool        gbnf; /* \UNNNNNNNN is a character; in a regular expression \U is U */
} Pattern;

static const uint32_t NOT_SINGLE = UINT32_MAX;

/* Behind "\": adds its characters. *single is the code point of an escape that is one character, else NOT_SINGLE. */
RP_NODISCARD RpStatus rp_pattern_escape(Pattern *s, Charset *out, uint32_t *single);

/* Behind "[": adds the characters of the class, up to "]". */
RP_NODISCARD RpStatus rp_pattern_set(Pattern *s, Charset *out);

#endif
