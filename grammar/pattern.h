/* pattern.h - regular expressions in the syntax of ECMAScript, as expressions over bytes. */
#ifndef GRAMMAR_PATTERN_H
#define GRAMMAR_PATTERN_H

#include "grammar/charset.h"

enum {
    PATTERN_JSON   = 1 << 0, /* of the content of a JSON string: each character may be escaped as JSON asks for */
    PATTERN_SEARCH = 1 << 1  /* finds a match anywhere unless it is anchored; else the whole text has to match */
};

/* RP_E_FORMAT with the place for bad syntax; RP_E_UNSUPPORTED for back references, \b, \p, look-behind, and anchors and
 * look-ahead inside of what is repeated. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_pattern(RxPool *p, const char *text, size_t n, unsigned flags, Rx *out);

/* The character class behind "[", up to "]", as GBNF has it too: `*at` is moves behind the "]". */
RP_NODISCARD RpStatus rp_pattern_class(const char *text, const char *end, const char **at, Charset *out);

/* Any one character, as `flags` say. */
Rx rp_pattern_any(RxPool *p, unsigned flags);

#endif
