/* visible.h - texts with control characters as \xNN (reprise/text.h), one character at a time. */
#ifndef BASE_TEXT_VISIBLE_H
#define BASE_TEXT_VISIBLE_H

#include <stdbool.h>
#include <stdio.h>

enum { RP_VISIBLE_MAX = 4 }; /* most bytes that rp_visible writes at once */

/* Writes the next character of [*text, end), or one byte of it, to `out` (not terminated) and moves *text behind it.
 * Returns the number of bytes; 0 at the end. U+0080 to U+009F are c2 80 to c2 9f in UTF-8. */
static inline int rp_visible(const char **text, const char *end, char out[RP_VISIBLE_MAX]) {
    static const char    digits[] = "0123456789abcdef";
    const unsigned char *p        = (const unsigned char *)*text;
    if (*text == end) return 0;
    const bool          c1   = p[0] == 0xc2 && end - *text > 1 && p[1] >= 0x80 && p[1] <= 0x9f;
    const unsigned char byte = c1 ? p[1] : p[0];
    *text += c1 ? 2 : 1;
    if (!c1 && (byte >= 0x20 || byte == '\n' || byte == '\t') && byte != 0x7f) {
        out[0] = (char)byte;
        return 1;
    }
    out[0] = '\\', out[1] = 'x', out[2] = digits[byte >> 4], out[3] = digits[byte & 15];
    return RP_VISIBLE_MAX;
}

/* The same for a format whose readers want UTF-8 (DOT): each ill-formed byte becomes U+FFFD. Characters stay whole. */
int rp_visible_utf8(const char **text, const char *end, char out[RP_VISIBLE_MAX]);

void rp_put_visible(const char *text, FILE *out);

/* Characters that rp_put_visible prints, for texts in UTF-8. */
int rp_visible_width(const char *text);

#endif
