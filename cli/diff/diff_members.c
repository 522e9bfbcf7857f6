/* diff_members.c - reads a dump value by value (diff_members.h). This file walks through objects and arrays down to the
 * elements of "nodes"; Jansson parses each element. If that fails, Jansson parses the whole text once more, only to get
 * the error with its line and column. */
#include "cli/diff/diff_members.h"

#include "cli/common.h"

#include <stdlib.h>
#include <string.h>

typedef struct Walk {
    const DiffMembers *m;
    const char        *text, *p, *end;
    char              *titles[2]; /* "title" of the outer object, and of the object "graph" in it */
    int                depth;     /* of the object with "nodes"; -1: none so far */
} Walk;

/* ---- values ---- */

/* The error of a text that cannot be walked through: invalid JSON, or JSON of another structure. */
static RpStatus not_json(const Walk *w) {
    json_error_t error;
    json_t      *whole = json_loadb(w->text, (size_t)(w->end - w->text), 0, &error);
    json_decref(whole);
    if (whole == NULL)
        return rp_fail(RP_E_FORMAT, "%s: line %d, column %d: %s", w->m->where, error.line, error.column, error.text);
    return rp_fail(RP_E_FORMAT, "%s: not a dump of `reprise graph --json`", w->m->where);
}

/* Skips white space. Returns the next character without taking it; 0 at the end. */
static char next(Walk *w) {
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\t' || *w->p == '\n' || *w->p == '\r')) w->p++;
    return w->p < w->end ? *w->p : '\0';
}

/* Takes the next character if it is c. */
static bool take(Walk *w, char c) {
    if (next(w) != c) return false;
    w->p++;
    return true;
}

/* Keys of dumps are ASCII. They are printed in errors, so any other bytes are refused. */
static RpStatus check_key(const char *where, const char *key) {
    for (const char *p = key; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            return rp_fail(RP_E_FORMAT, "%s: not a dump of `reprise graph --json`: the key \"%s\"", where, key);
    return RP_OK;
}

/* Makes control characters of all strings in the value visible, since they are printed later. */
static RpStatus make_visible(const char *where, json_t *value) {
    const char *key, *text = json_string_value(value);
    json_t     *item;
    size_t      i;
    if (text != NULL) {
        char      *shown = cli_visible(text, json_string_length(value));
        const bool ok    = shown != NULL && json_string_set(value, shown) == 0;
        free(shown);
        return ok ? RP_OK : rp_fail(RP_E_FORMAT, "%s: a string is no UTF-8, or out of memory", where);
    }
    json_array_foreach(value, i, item) RP_TRY(make_visible(where, item));
    json_object_foreach(value, key, item) {
        RP_TRY(check_key(where, key));
        RP_TRY(make_visible(where, item));
    }
    return RP_OK;
}

/* The next value, which the caller frees. */
static RpStatus read_value(Walk *w, json_t **out) {
    json_error_t error;
    (void)next(w);
    *out = json_loadb(w->p, (size_t)(w->end - w->p), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);
    if (*out == NULL) return not_json(w);
    w->p += error.position;
    const RpStatus st = make_visible(w->m->where, *out);
    if (st != RP_OK) json_decref(*out);
    return st;
}

/* ---- arrays and objects ---- */

/* Elements of an array, or one value that is none. `nodes`: they are nodes. */
static RpStatus walk_elements(Walk *w, bool nodes) {
    json_t    *value;
    const bool array = take(w, '[');
    if (array && take(w, ']')) return RP_OK;
    do {
        RP_TRY(read_value(w, &value));
        const RpStatus st = nodes && array ? w->m->node(w->m->user, value) : RP_OK;
        json_decref(value);
        RP_TRY(st);
    } while (array && take(w, ','));
    return !array || take(w, ']') ? RP_OK : not_json(w);
}

static RpStatus walk_object(Walk *w, int depth);

static RpStatus walk_title(Walk *w, int depth) {
    json_t *value;
    RP_TRY(read_value(w, &value));
    free(w->titles[depth]);
    w->titles[depth] = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
    const bool ok    = w->titles[depth] != NULL || !json_is_string(value);
    json_decref(value);
    return ok ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory", w->m->where);
}

/* depth 0: a member of the outer object, 1: of "graph". Members that a diff does not use are parsed and dropped. */
static RpStatus walk_member(Walk *w, const char *key, int depth) {
    RP_TRY(check_key(w->m->where, key));
    if (!take(w, ':')) return not_json(w);
    if (strcmp(key, "title") == 0) return walk_title(w, depth);
    if (depth == 0 && strcmp(key, "graph") == 0 && next(w) == '{') return walk_object(w, 1);
    if (strcmp(key, "nodes") != 0 || next(w) != '[') return walk_elements(w, false);
    if (w->depth >= 0) return rp_fail(RP_E_FORMAT, "%s: \"nodes\" is there twice", w->m->where);
    w->depth = depth;
    return walk_elements(w, true);
}

static RpStatus walk_object(Walk *w, int depth) {
    json_t *key;
    if (!take(w, '{')) return not_json(w);
    if (take(w, '}')) return RP_OK;
    do {
        if (next(w) != '"') return not_json(w);
        RP_TRY(read_value(w, &key));
        const RpStatus st = walk_member(w, json_string_value(key), depth);
        json_decref(key);
        RP_TRY(st);
    } while (take(w, ','));
    return take(w, '}') ? RP_OK : not_json(w);
}

static RpStatus walk(Walk *w) {
    if (next(w) != '{' && next(w) != '[') return not_json(w);
    RP_TRY(next(w) == '{' ? walk_object(w, 0) : walk_elements(w, false));
    if (next(w) != '\0' || w->p < w->end) return not_json(w);
    if (w->depth < 0)
        return rp_fail(RP_E_FORMAT, "%s: not a dump of `reprise graph --json`: \"nodes\" is missing", w->m->where);
    return w->titles[w->depth] != NULL ? w->m->title(w->m->user, w->titles[w->depth]) : RP_OK;
}

RpStatus cli_diff_members(const char *text, size_t n, const DiffMembers *m) {
    Walk           w  = {.m = m, .text = text, .p = text, .end = text + n, .depth = -1};
    const RpStatus st = walk(&w);
    for (int i = 0; i < 2; i++) free(w.titles[i]);
    return st;
}
