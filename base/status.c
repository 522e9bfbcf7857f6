/* Status codes, their texts, the text of the latest failure of each thread, and the version. */
#include "reprise/status.h"
#include "reprise/version.h"

#include "base/visible.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

const char *rp_status_text(RpStatus status) {
    switch (status) {
#define X(name, value, text)                                                                                 \
    case RP_##name:                                                                                          \
        return text;
        RP_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *rp_last_error(void) { return last_error; }

RpStatus rp_fail(RpStatus status, const char *fmt, ...) {
    char    text[sizeof last_error]; /* formatted apart: an argument may point into last_error */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t      n = 0;
    const char *p = text; /* names in it come from files */
    char        piece[RP_VISIBLE_MAX];
    for (int len; (len = rp_visible(&p, piece)) > 0 && n + (size_t)len < sizeof last_error; n += (size_t)len)
        memcpy(last_error + n, piece, (size_t)len);
    last_error[n] = '\0';
    return status;
}

const char *rp_version(void) { return RP_VERSION; }
