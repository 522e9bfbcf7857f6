/* Texts with control characters as \xNN. */
#include "base/text/visible.h"

#include "base/text/utf8.h"
#include "reprise/text.h"

#include <string.h>

size_t rp_visible_text(const char *text, size_t n, char *out, size_t size) {
    if (text == NULL) text = "", n = 0;
    if (out == NULL) size = 0;
    const char *p     = text;
    size_t      total = 0;
    bool        fits  = true; /* no character is cut in two by the end of `out` */
    char        piece[RP_VISIBLE_MAX];
    size_t      used = 0;
    for (int len; (len = rp_visible(&p, text + n, piece)) > 0; total += (size_t)len) {
        fits = fits && used + (size_t)len < size;
        if (!fits) continue;
        memcpy(out + used, piece, (size_t)len);
        used += (size_t)len;
    }
    if (size > 0) out[used] = '\0';
    return total;
}

int rp_visible_utf8(const char **text, const char *end, char out[RP_VISIBLE_MAX]) {
    const char  *p = *text;
    const size_t n = p < end ? rp_utf8_length(p, (size_t)(end - p)) : 0;
    if (n == 0 || (unsigned char)p[0] < 0x80 || (n == 2 && memcmp(p, "\xc2\xa0", 2) < 0))
        return rp_visible(text, end, out);           /* ASCII, U+0080 to U+009F */
    const char *shown  = n > 1 ? p : "\xef\xbf\xbd"; /* U+FFFD */
    const int   length = n > 1 ? (int)n : 3;
    memcpy(out, shown, (size_t)length);
    *text += n;
    return length;
}

void rp_put_visible(const char *text, FILE *out) {
    const char *end = text + strlen(text);
    char        piece[RP_VISIBLE_MAX];
    for (int n; (n = rp_visible(&text, end, piece)) > 0;) fwrite(piece, 1, (size_t)n, out);
}

int rp_visible_width(const char *text) {
    const char *end = text + strlen(text);
    char        piece[RP_VISIBLE_MAX];
    int         width = 0;
    for (int n; (n = rp_visible(&text, end, piece)) > 0;)
        for (int i = 0; i < n; i++) width += ((unsigned char)piece[i] & 0xc0) != 0x80;
    return width;
}
