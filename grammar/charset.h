/* charset.h - sets of code points, and their texts: in UTF-8, or as a character inside of a JSON string. */
#ifndef GRAMMAR_CHARSET_H
#define GRAMMAR_CHARSET_H

#include "grammar/rx.h"

/* Ranges in order, with gaps between them. Zero-initialise it; free it with rp_charset_free. */
typedef struct CharRange {
    uint32_t lo, hi;
} CharRange;

typedef struct Charset {
    CharRange *ranges;
    size_t     n, room;
} Charset;

enum { MAX_CODE_POINT = 0x10ffff };

RP_NODISCARD RpStatus rp_charset_add(Charset *s, uint32_t lo, uint32_t hi);
RP_NODISCARD RpStatus rp_charset_add_all(Charset *s, const Charset *other);
RP_NODISCARD RpStatus rp_charset_negate(Charset *s);
void                  rp_charset_free(Charset *s);
bool                  rp_charset_has(const Charset *s, uint32_t lo, uint32_t hi); /* all of lo..hi */

/* One character of the set in UTF-8. Surrogates are left out. */
Rx rp_charset_utf8(RxPool *p, const Charset *s);

/* The same as it may stand in a JSON string: as it is, or escaped where JSON has to. A set with every code point
 * above U+FFFF (any character, what is not one of a few) may escape others too, by \uXXXX. */
Rx rp_charset_json(RxPool *p, const Charset *s);

/* Reads the UTF-8 character at *text, before end, and moves behind it. An ill-formed byte is a code point of its
 * own. */
uint32_t rp_code_point(const char **text, const char *end);

#endif
