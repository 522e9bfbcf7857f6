/* Errors of templates, with the line and column of their place. */
#include "template/run.h"

#include "base/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>

RpStatus rp_tpl_fail_at(const TplSource *s, uint32_t at, RpStatus status, const char *fmt, ...) {
    char    what[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < s->n;) {
        column = s->text[i] == '\n' ? 1 : column + 1;
        line += s->text[i] == '\n';
        i += rp_utf8_length(s->text + i, s->n - i);
    }
    return rp_fail(status, "%s:%zu:%zu: %s", s->name, line, column, what);
}

RpStatus rp_tpl_undefined(TplRun *r, const TplValue *v) {
    const TplMissing m = v->type == TPL_UNDEFINED ? v->missing : (TplMissing){"?", 1, NULL};
    if (m.owner != NULL) return rp_tpl_fail(r, "'%s' object has no attribute '%.*s'", m.owner, (int)m.n, m.name);
    return rp_tpl_fail(r, "'%.*s' is undefined", (int)m.n, m.name);
}
