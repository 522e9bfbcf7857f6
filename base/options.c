/* Environment variables, one row each in RP_OPTIONS. An unset or empty variable has the default of its
 * row. */
#include "base/option_number.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct OptionRow {
    const char *name, *value, *help;
} OptionRow;

static const OptionRow rows[RP_OPT_COUNT] = {
#define X(ID, name, value, help) [RP_OPT_##ID] = {name, value, help},
    RP_OPTIONS(X)
#undef X
};

static bool is_option(RpOption option) { return (unsigned)option < RP_OPT_COUNT; }

const char *rp_option(RpOption option) {
    if (!is_option(option)) return "";
    const char *value = getenv(rows[option].name);
    return value != NULL && value[0] != '\0' ? value : rows[option].value;
}

const char *rp_option_name(RpOption option) { return is_option(option) ? rows[option].name : ""; }
const char *rp_option_default(RpOption option) { return is_option(option) ? rows[option].value : ""; }
const char *rp_option_help(RpOption option) { return is_option(option) ? rows[option].help : ""; }

RpStatus rp_option_number(RpOption option, long max, long *out) {
    const char *text = rp_option(option);
    char       *end;
    errno = 0;
    *out  = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *out < 0 || *out > max)
        return rp_fail(RP_E_ARG, "%s='%s': must be a number from 0 to %ld", rp_option_name(option), text, max);
    return RP_OK;
}

RpStatus rp_option_double(RpOption option, double max, double *out) {
    const char *text = rp_option(option);
    char       *end;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !(*out >= 0.0 && *out <= max))
        return rp_fail(RP_E_ARG, "%s='%s': must be a number from 0 to %g", rp_option_name(option), text, max);
    return RP_OK;
}
