/* visible.h - text from files, prompts and dumps as a terminal may print it. Control characters become \xNN, because a
 * terminal would obey them (ECMA-48): the bytes 00 to 1f but newline and tab, 7f, and the characters U+0080 to U+009F,
 * which are c2 80 to c2 9f in UTF-8.
 *
 *     "a<ESC>[2J"  ->  "a\x1b[2J" */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include <stdbool.h>
#include <stdio.h>

enum { RP_VISIBLE_MAX = 4 }; /* most bytes that rp_visible writes for one step */

/* Writes the next character of *text, or one byte of it, to `out` (not terminated) and moves *text behind it. Returns
 * the number of bytes; 0 at the end of the text. */
static inline int rp_visible(const char **text, char out[RP_VISIBLE_MAX]) {
    static const char    digits[] = "0123456789abcdef";
    const unsigned char *p        = (const unsigned char *)*text;
    if (*p == '\0') return 0;
    const bool          c1   = p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f;
    const unsigned char byte = c1 ? p[1] : p[0];
    *text += c1 ? 2 : 1;
    if (!c1 && (byte >= 0x20 || byte == '\n' || byte == '\t') && byte != 0x7f) {
        out[0] = (char)byte;
        return 1;
    }
    out[0] = '\\', out[1] = 'x', out[2] = digits[byte >> 4], out[3] = digits[byte & 15];
    return RP_VISIBLE_MAX;
}

static inline void rp_put_visible(const char *text, FILE *out) {
    char piece[RP_VISIBLE_MAX];
    for (int n; (n = rp_visible(&text, piece)) > 0;) fwrite(piece, 1, (size_t)n, out);
}

/* Characters that rp_put_visible prints, for texts in UTF-8. */
static inline int rp_visible_width(const char *text) {
    char piece[RP_VISIBLE_MAX];
    int  width = 0;
    for (int n; (n = rp_visible(&text, piece)) > 0;)
        for (int i = 0; i < n; i++) width += ((unsigned char)piece[i] & 0xc0) != 0x80;
    return width;
}

#endif
