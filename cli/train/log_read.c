/* Reads the log of a training (log.c) into curves. Members that the picture does not show are not looked at. */
#include "cli/train/plot.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_train_curves_free(TrainCurves *c) {
    free(c->loss.points);
    free(c->validation.points);
    free(c->balance.points);
    *c = (TrainCurves){0};
}

/* Appends a point to a curve. */
static RpStatus add(Curve *c, double x, double y) {
    if (c->n == c->room) {
        const size_t room  = 2 * c->room + 256;
        Point       *grown = realloc(c->points, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a curve of %zu points", room);
        c->points = grown;
        c->room   = room;
    }
    c->points[c->n++] = (Point){x, y};
    return RP_OK;
}

/* Adds a number to a curve, NaN for null; an absent one is left out. */
static RpStatus take(Curve *c, double step, const json_t *line, const char *member, const char *path, size_t number) {
    const json_t *v = json_object_get(line, member);
    if (v == NULL) return RP_OK;
    if (!json_is_number(v) && !json_is_null(v))
        return rp_fail(RP_E_FORMAT, "%s:%zu: \"%s\" is not a number", path, number, member);
    if (c->n > 0 && c->points[c->n - 1].x >= step)
        return rp_fail(RP_E_FORMAT, "%s:%zu: step %.0f after step %.0f", path, number, step, c->points[c->n - 1].x);
    return add(c, step, json_is_null(v) ? (double)NAN : json_number_value(v));
}

/* Length of the word for NaN or infinity at p, as printf and Python write it; 0: there is no such word. */
static size_t no_number(const char *p, const char *end) {
    static const char *const words[] = {"nan", "NaN", "inf", "Infinity"};
    const size_t             sign    = *p == '-';
    size_t                   found   = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(end - p) >= sign + n && memcmp(p + sign, words[i], n) == 0) found = sign + n;
    }
    return found;
}

/* The line as JSON: null in the place of NaN and infinities, which JSON lacks. NULL without memory. */
static char *to_json(const char *text, size_t len, size_t *n) {
    char *out    = malloc(2 * len + 1); /* 3 bytes become 4 */
    bool  quoted = false;
    *n           = 0;
    for (const char *p = text, *end = p + len; out != NULL && p < end;) {
        const size_t word = quoted ? 0 : no_number(p, end);
        if (word > 0) {
            memcpy(out + *n, "null", 4);
            *n += 4;
            p += word;
            continue;
        }
        if (quoted && *p == '\\' && p + 1 < end)
            out[(*n)++] = *p++;
        else if (*p == '"')
            quoted = !quoted;
        out[(*n)++] = *p++;
    }
    return out;
}

/* Adds the members of a line to the curves. A line of a step has "loss", one of a validation "validation_loss". */
static RpStatus take_all(TrainCurves *c, const json_t *line, const char *path, size_t number) {
    const json_t *step = json_object_get(line, "step");
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        return rp_fail(RP_E_FORMAT, "%s:%zu: \"step\" is missing or not a whole number", path, number);
    if (json_object_get(line, "loss") == NULL && json_object_get(line, "validation_loss") == NULL)
        return rp_fail(RP_E_FORMAT, "%s:%zu: neither \"loss\" nor \"validation_loss\"", path, number);
    const double x = (double)json_integer_value(step);
    RP_TRY(take(&c->loss, x, line, "loss", path, number));
    RP_TRY(take(&c->validation, x, line, "validation_loss", path, number));
    return take(&c->balance, x, line, "balance", path, number);
}

static RpStatus read_line(TrainCurves *c, const char *text, size_t len, const char *path, size_t number) {
    json_error_t error;
    size_t       n;
    char        *json = to_json(text, len, &n);
    if (json == NULL) return rp_fail(RP_E_NOMEM, "%s:%zu: out of memory", path, number);
    json_t *line = json_loadb(json, n, 0, &error);
    free(json);
    if (line == NULL) return rp_fail(RP_E_FORMAT, "%s:%zu:%d: %s", path, number, error.column, error.text);
    const RpStatus st = take_all(c, line, path, number);
    json_decref(line);
    return st;
}

/* Reads every line; empty lines are skipped. `number` counts lines from 1, as editors do. */
static RpStatus read_lines(const Text *text, const char *path, TrainCurves *out) {
    size_t number = 0;
    for (const char *p = text->bytes, *end = p + text->n; p < end;) {
        const char  *newline = memchr(p, '\n', (size_t)(end - p));
        const size_t len     = newline != NULL ? (size_t)(newline - p) : (size_t)(end - p);
        number++;
        if (len > 0) RP_TRY(read_line(out, p, len, path, number));
        p += len + (newline != NULL);
    }
    return out->loss.n > 0 ? RP_OK : rp_fail(RP_E_ARG, "%s: there are no steps in it", path);
}

RpStatus cli_train_log_read(const char *path, TrainCurves *out) {
    Text text;
    *out = (TrainCurves){0};
    RP_TRY(cli_read_text(NULL, path, &text));
    const RpStatus st = read_lines(&text, path, out);
    free(text.bytes);
    return st;
}
