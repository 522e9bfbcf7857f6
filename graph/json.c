/* JSON strings: quote, backslash and control characters are escaped; bytes that are no UTF-8 become U+FFFD. */
#include "graph/json.h"

#include "base/utf8.h"

#include <string.h>

void rp_json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (size_t n; *text != '\0'; text += n) {
        const unsigned char c = (unsigned char)*text;
        n                     = rp_utf8_length(text, strnlen(text, 4));
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else if (n == 2 && c == 0xc2 &&
                 (unsigned char)text[1] <= 0x9f) /* U+0080 to U+009F are control characters too */
            fprintf(out, "\\u%04x", (unsigned char)text[1]);
        else if (n == 1 && c >= 0x80)
            fputs("\\ufffd", out);
        else
            fwrite(text, 1, n, out);
    }
    fputc('"', out);
}
