/* parse.c - parses a command line by a table of options.
 *
 * Accepted forms: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, --flag. After `--` all arguments are
 * positional. */
#include "cli/options/parse.h"

#include "cli/default_model.h"
#include "cli/options/files.h"
#include "cli/terminal/message.h"
#include "cli/terminal/style.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 32, MAX_OPTIONS = 96 };

static const char *color;
static bool        no_memory; /* the command line is right, but there was no memory for a list */
static bool        help;      /* has no effect: cli_parse looks for it itself */

TextList cli_plugins;

const Option cli_common_options[N_COMMON_OPTIONS] = {
    CLI_TEXT("color", 0, color, "WHEN", "colours: auto (default: where the output is a terminal), always or never"),
    CLI_FILES(FILE_READ, "plugin", 0, cli_plugins, "FILE",
              "load ops and types from this shared object; may be given several times; also: REPRISE_PLUGINS"),
    CLI_FLAG("help", 'h', help, "this text"),
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edit distance: insertion, deletion, replacement and a swap of neighbours cost 1 each. rows[i % 3][j] is
 * the distance between the first i bytes of a and the first j of b; three rows suffice, as a swap looks two
 * rows back. SIZE_MAX for names longer than MAX_NAME. */
static size_t distance(const char *a, const char *b) {
    size_t       rows[3][MAX_NAME + 1];
    const size_t na = strlen(a), nb = strlen(b);
    if (na > MAX_NAME || nb > MAX_NAME) return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++) rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

const char *cli_nearest(const char *name, const char *const names[], size_t n) {
    const char  *nearest = NULL;
    const size_t length  = strlen(name);
    size_t       best    = length > 3 ? length / 3 + 2 : 2; /* one above the largest distance that is accepted */
    for (size_t i = 0; i < n; i++) {
        const size_t d = distance(name, names[i]);
        if (d < best) {
            best    = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* Reports wrong use of a command. Always false, so that a parser can return it. */
__attribute__((format(printf, 2, 3))) static bool usage_error(const Command *c, const char *fmt, ...) {
    char    text[512], where[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(where, sizeof where, "reprise %s", c->name);
    cli_say(where, "%s (see `reprise %s --help`)", text, c->name);
    return false;
}

/* Each parser of a value stores it, or reports why it cannot and returns false. */
static bool parse_int(const Command *c, const Option *o, const char *text) {
    const double max = o->max == 0.0 ? INT32_MAX : o->max;
    char        *end;
    errno             = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0') return usage_error(c, "--%s %s: not a whole number", o->name, text);
    if (errno != 0 || (double)v < o->min || (double)v > max)
        return usage_error(c, "--%s %s: must be from %.0f to %.0f", o->name, text, o->min, max);
    *(int32_t *)o->value = (int32_t)v;
    return true;
}

static bool parse_seed(const Command *c, const Option *o, const char *text) {
    char *end;
    errno                      = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || strchr(text, '-') != NULL || errno != 0)
        return usage_error(c, "--%s %s: not a whole number from 0 to 2^64-1", o->name, text);
    *(uint64_t *)o->value = v;
    return true;
}

static bool parse_number(const Command *c, const Option *o, const char *text) {
    const double max = o->max == 0.0 ? HUGE_VAL : o->max;
    char        *end;
    const float  v = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(v)) return usage_error(c, "--%s %s: not a number", o->name, text);
    if (v < (float)o->min || (double)v > max) { /* the bound itself is rounded to float too */
        if (isinf(max)) return usage_error(c, "--%s %s: must be at least %g", o->name, text, o->min);
        return usage_error(c, "--%s %s: must be from %g to %g", o->name, text, o->min, max);
    }
    *(float *)o->value = v;
    return true;
}

/* Appends a value of an option that may be repeated. The list borrows it from argv. */
static bool parse_item(const Option *o, const char *text) {
    TextList    *list  = o->value;
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (items == NULL) {
        no_memory = true;
        cli_say("reprise", "--%s: out of memory", o->name);
        return false;
    }
    list->items            = items;
    list->items[list->n++] = text;
    return true;
}

static bool parse_value(const Command *c, const Option *o, const char *text) {
    switch (o->kind) {
    case OPTION_INT:
        return parse_int(c, o, text);
    case OPTION_SEED:
        return parse_seed(c, o, text);
    case OPTION_NUMBER:
        return parse_number(c, o, text);
    case OPTION_LIST:
        return parse_item(o, text);
    case OPTION_TEXT:
        *(const char **)o->value = text;
        if (o->value == &color && !cli_set_color(text))
            return usage_error(c, "--color %s: must be auto, always or never", text);
        return true;
    case OPTION_FLAG:
        break;
    }
    *(bool *)o->value = true;
    return true;
}

/* Option i of the command, then the common ones; NULL at the end. */
static const Option *option_at(const Command *c, size_t i) {
    if (i < c->n_options) return &c->options[i];
    return i < c->n_options + N_COMMON_OPTIONS ? &cli_common_options[i - c->n_options] : NULL;
}

/* The option --name, of which `len` bytes are given; NULL: there is none. */
static const Option *find_long(const Command *c, const char *name, size_t len) {
    const Option *o;
    for (size_t i = 0; (o = option_at(c, i)) != NULL; i++)
        if (o->name != NULL && strlen(o->name) == len && memcmp(o->name, name, len) == 0) return o;
    return NULL;
}

static const Option *find_letter(const Command *c, char letter) {
    const Option *o;
    for (size_t i = 0; (o = option_at(c, i)) != NULL; i++)
        if (o->letter == letter) return o;
    return NULL;
}

/* Reports an option that does not exist, with the nearest one that does. */
static bool unknown(const Command *c, const char *name) {
    const Option *o;
    const char   *names[MAX_OPTIONS];
    size_t        n = 0;
    for (size_t i = 0; (o = option_at(c, i)) != NULL && n < MAX_OPTIONS; i++)
        if (o->name != NULL) names[n++] = o->name;
    const char *nearest = cli_nearest(name, names, n);
    if (nearest == NULL) return usage_error(c, "unknown option --%s", name);
    return usage_error(c, "unknown option --%s, did you mean --%s?", name, nearest);
}

/* Parses the option argv[0]. Returns the number of arguments it used: 1, 2 with a separate value, 0 on an
 * error. */
static int parse_option(const Command *c, int argc, char *const argv[]) {
    const char   *arg   = argv[0];
    const bool    wide  = arg[1] == '-';
    const char   *name  = arg + (wide ? 2 : 1);
    const char   *value = wide ? strchr(name, '=') : name[1] != '\0' ? name + 1 : NULL;
    const size_t  len   = wide && value != NULL ? (size_t)(value++ - name) : strlen(name);
    const Option *o     = wide ? find_long(c, name, len) : find_letter(c, name[0]);
    char          cut[MAX_NAME + 1];
    snprintf(cut, sizeof cut, "%.*s", (int)least(len, MAX_NAME), name);
    if (o == NULL && wide) return unknown(c, cut);
    if (o == NULL) return usage_error(c, "unknown option -%c", name[0]);
    if (o->kind == OPTION_FLAG) {
        if (value != NULL) return usage_error(c, "%s: --%s takes no value", arg, o->name);
        return parse_value(c, o, "");
    }
    if (value != NULL) return parse_value(c, o, value);
    if (argc < 2) return usage_error(c, "%s needs a value: %s", arg, o->arg);
    return parse_value(c, o, argv[1]) ? 2 : 0;
}

/* Stores `text` in the first positional argument that has no value yet. *model is the model given by position. */
static bool parse_positional(const Command *c, const char *text, const char **model) {
    for (size_t i = 0; i < c->n_options; i++) {
        const Option *o = &c->options[i];
        if (o->is_model && *model == NULL) {
            *model = text;
            return true;
        }
        if (o->name == NULL && *(const char *const *)o->value == NULL) return parse_value(c, o, text);
    }
    const Option *p = find_letter(c, 'p');
    if (p != NULL && p->kind == OPTION_TEXT && *(const char *const *)p->value == NULL)
        return usage_error(c, "`%s` is not an option: is it the %s? Then -p goes before it", text, p->name);
    return usage_error(c, "`%s` is not an option, and no further argument is expected", text);
}

/* Joins the model of -m and the one given by position. */
static bool set_model(const Command *c, const Option *o, const char *placed) {
    const char **named = o->value;
    if (placed != NULL && *named != NULL && strcmp(placed, *named) != 0)
        return usage_error(c, "two models are given: -m %s and %s", *named, placed);
    if (placed != NULL) *named = placed;
    const char *searched;
    if (!o->needed || *named != NULL || (*named = cli_default_model(&searched)) != NULL) return true;
    return usage_error(c, "a MODEL is needed: there is no demo model (%s)", searched);
}

/* Reports the first required option without a value. The model has a default, which is found here. */
static bool check_needed(const Command *c, const char *model) {
    for (size_t i = 0; i < c->n_options; i++) {
        const Option *o = &c->options[i];
        if (o->is_model && !set_model(c, o, model)) return false;
        if (!o->needed || *(const char *const *)o->value != NULL) continue;
        if (o->name == NULL) return usage_error(c, "%s is needed", o->arg);
        return usage_error(c, "-%c %s is needed", o->letter, o->arg);
    }
    return true;
}

static const char *const *parsed;
static size_t             n_parsed;

const char *const *cli_parsed_arguments(size_t *n) {
    *n = n_parsed;
    return parsed;
}

ParseResult cli_parse(const Command *command, int argc, char *const argv[]) {
    parsed                   = (const char *const *)argv;
    n_parsed                 = (size_t)argc;
    const char *model        = NULL;
    bool        options_done = false; /* after -- */
    for (int i = 0; i < argc;) {
        if (!options_done && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) return PARSE_HELP;
        if (!options_done && strcmp(argv[i], "--") == 0) {
            options_done = true;
            i++;
            continue;
        }
        if (!options_done && argv[i][0] == '-' && argv[i][1] != '\0') {
            const int took = parse_option(command, argc - i, argv + i);
            if (took == 0) return no_memory ? PARSE_FAILED : PARSE_ERROR;
            i += took;
            continue;
        }
        if (!parse_positional(command, argv[i], &model)) return PARSE_ERROR;
        i++;
    }
    if (!check_needed(command, model)) return PARSE_ERROR;
    return cli_check_files(command, cli_common_options, N_COMMON_OPTIONS);
}

int cli_parse_color(int argc, char *const argv[]) {
    const char *when = NULL;
    int         took = 0;
    if (argc > 0 && strncmp(argv[0], "--color=", 8) == 0) {
        when = argv[0] + 8;
        took = 1;
    } else if (argc > 0 && strcmp(argv[0], "--color") == 0) {
        when = argc > 1 ? argv[1] : NULL;
        took = 2;
    }
    if (took == 0 || (when != NULL && cli_set_color(when))) return took;
    if (when == NULL)
        cli_say("reprise", "--color needs a value: WHEN (see `reprise --help`)");
    else
        cli_say("reprise", "--color %s: must be auto, always or never (see `reprise --help`)", when);
    return -1;
}
