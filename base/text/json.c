/* JSON strings (reprise/text.h). */
#include "reprise/text.h"

#include "base/text/utf8.h"

/* The letter after the backslash of a short escape; 0: there is none. */
static char short_escape(unsigned char c) {
    return c == '"' || c == '\\' ? (char)c : c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : '\0';
}

void rp_put_json_string(const char *text, size_t n, FILE *out) {
    if (out == NULL) return;
    if (text == NULL) n = 0;
    fputc('"', out);
    for (size_t i = 0, len; i < n; i += len) {
        const unsigned char c = (unsigned char)text[i];
        len                   = rp_utf8_length(text + i, n - i);
        if (short_escape(c) != '\0')
            fprintf(out, "\\%c", short_escape(c));
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else if (len == 2 && c == 0xc2 && (unsigned char)text[i + 1] <= 0x9f) /* U+0080 to U+009F */
            fprintf(out, "\\u%04x", (unsigned char)text[i + 1]);
        else if (len == 1 && c >= 0x80)
            fputs("\\ufffd", out);
        else
            fwrite(text + i, 1, len, out);
    }
    fputc('"', out);
}
