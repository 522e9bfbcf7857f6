/* The error for an argument that must not be NULL. */
#include "base/argument.h"

#include <string.h>

RpStatus rp_argument_is_null(const char *function, const char *name) {
    static const char suffix[] = "_sized";
    size_t            n        = strlen(function);
    if (n >= sizeof suffix && strcmp(function + n - strlen(suffix), suffix) == 0) n -= strlen(suffix);
    return rp_fail(RP_E_ARG, "%.*s: %s is NULL", (int)n, function, name);
}
