/* Status codes, their texts, the text of the latest failure of each thread, and the version. */
#include "reprise/status.h"
#include "reprise/text.h"
#include "reprise/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

const char *rp_status_text(RpStatus status) {
    switch (status) {
#define X(name, value, text)                                                                                           \
    case RP_##name:                                                                                                    \
        return text;
        RP_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *rp_last_error(void) { return last_error; }

RpStatus rp_fail(RpStatus status, const char *fmt, ...) {
    char    text[sizeof last_error] = ""; /* formatted apart: an argument may point into last_error */
    va_list ap;
    va_start(ap, fmt);
    if (fmt != NULL) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rp_visible_text(text, strlen(text), last_error, sizeof last_error); /* names in it come from files */
    return status;
}

const char *rp_version(void) { return RP_VERSION; }
