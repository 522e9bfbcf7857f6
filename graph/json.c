/* JSON strings: quote, backslash and control characters are escaped; bytes that are no UTF-8 become U+FFFD. */
#include "graph/json.h"

#include <stdbool.h>

/* Bytes of the UTF-8 character at p, which a NUL ends; 0 if there is no whole, valid one (Unicode, table 3-7). */
static int utf8_length(const unsigned char *p) {
    if (p[0] < 0x80) return 1;
    const int n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                  : (p[0] & 0xf0) == 0xe0        ? 3
                  : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    const bool too_long  = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    const bool surrogate = p[0] == 0xed && p[1] >= 0xa0, too_large = p[0] == 0xf4 && p[1] >= 0x90;
    return too_long || surrogate || too_large ? 0 : n;
}

void rp_json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        const int n = utf8_length(p);
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else if (n == 2 && p[0] == 0xc2 && p[1] <= 0x9f) /* U+0080 to U+009F are control characters too */
            fprintf(out, "\\u%04x", p[1]);
        else if (n == 0)
            fputs("\\ufffd", out);
        else
            fwrite(p, 1, (size_t)n, out);
        p += n > 0 ? n : 1;
    }
    fputc('"', out);
}
