/* Reads the log of a training (log.c) into curves. Members that the picture does not show are not looked at. */
#include "cli/train/plot.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void cli_train_curves_free(TrainCurves *c) {
    free(c->loss.points);
    free(c->validation.points);
    free(c->balance.points);
    *c = (TrainCurves){0};
}

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

/* Adds a number to a curve; an absent one is left out. */
static RpStatus take(Curve *c, double step, const json_t *line, const char *member, const char *path,
                     size_t number) {
    const json_t *v = json_object_get(line, member);
    if (v == NULL || json_is_null(v)) return RP_OK;
    if (!json_is_number(v))
        return rp_fail(RP_E_FORMAT, "%s:%zu: \"%s\" is not a number", path, number, member);
    if (c->n > 0 && c->points[c->n - 1].x >= step)
        return rp_fail(RP_E_FORMAT, "%s:%zu: step %.0f after step %.0f", path, number, step,
                       c->points[c->n - 1].x);
    return add(c, step, json_number_value(v));
}

static RpStatus read_line(TrainCurves *c, const char *text, size_t len, const char *path, size_t number) {
    json_error_t error;
    json_t      *line = json_loadb(text, len, 0, &error);
    if (line == NULL) return rp_fail(RP_E_FORMAT, "%s:%zu:%d: %s", path, number, error.column, error.text);
    const json_t *step = json_object_get(line, "step");
    RpStatus      st   = RP_OK;
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        st = rp_fail(RP_E_FORMAT, "%s:%zu: \"step\" is missing or not a whole number", path, number);
    else if (json_object_get(line, "loss") == NULL && json_object_get(line, "validation_loss") == NULL)
        st = rp_fail(RP_E_FORMAT, "%s:%zu: neither \"loss\" nor \"validation_loss\"", path, number);
    const double x = (double)json_integer_value(step);
    if (st == RP_OK) st = take(&c->loss, x, line, "loss", path, number);
    if (st == RP_OK) st = take(&c->validation, x, line, "validation_loss", path, number);
    if (st == RP_OK) st = take(&c->balance, x, line, "balance", path, number);
    json_decref(line);
    return st;
}

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
