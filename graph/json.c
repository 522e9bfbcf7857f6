/* JSON strings: quote, backslash and control characters are escaped. */
#include "graph/json.h"

void rp_json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) /* U+0080 to U+009F are control characters too */
            fprintf(out, "\\u%04x", *++p);
        else
            fputc(*p, out);
    }
    fputc('"', out);
}
