/* The lines of a text (lines.h). */
#include "template/lines.h"

#include <string.h>

/* Bytes of the line end at s.p + i; 0: there is none. */
static size_t line_end(TplString s, size_t i) {
    const unsigned char *p = (const unsigned char *)s.p + i;
    const size_t         n = s.n - i;
    if (p[0] == '\r' && n > 1 && p[1] == '\n') return 2;
    if ((p[0] >= '\n' && p[0] <= '\r') || (p[0] >= 0x1c && p[0] <= 0x1e)) return 1;
    if (n > 1 && p[0] == 0xc2 && p[1] == 0x85) return 2;
    return n > 2 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9) ? 3 : 0;
}

bool rp_tpl_next_line(TplString s, size_t *at, TplString *line) {
    const size_t first = *at;
    for (size_t i = first; i < s.n; i++) {
        const size_t n = line_end(s, i);
        if (n == 0) continue;
        *line = rp_tpl_cut(s, first, i);
        *at   = i + n;
        return true;
    }
    *line = rp_tpl_cut(s, first, s.n);
    *at   = s.n;
    return false;
}
