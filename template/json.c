/* Values as JSON, as json.dumps of Python writes it, and JSON as values. */
#include "template/json.h"

#include "base/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Writer {
    TplText            *t;
    const TplJsonStyle *style;
    const TplValue     *bad;
} Writer;

static uint32_t decode(const char *text, size_t n) {
    const unsigned char *p = (const unsigned char *)text;
    if (n == 1) return p[0];
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

static void put_u(TplText *t, uint32_t c) {
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", (unsigned)(c & 0xffff));
    rp_tpl_put_text(t, text);
}

static void put_escaped(TplText *t, uint32_t c) {
    static const char named[] = "\"\\\n\r\t\f\b", names[] = "\"\\nrtfb";
    const char       *found   = c != 0 && c < 0x80 ? strchr(named, (int)c) : NULL;
    const char        text[2] = {'\\', found != NULL ? names[found - named] : 0};
    if (found != NULL)
        rp_tpl_put_bytes(t, text, 2, true);
    else if (c < 0x10000)
        put_u(t, c);
    else
        put_u(t, 0xd800 + ((c - 0x10000) >> 10)), put_u(t, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* Escapes are of the template: they hold no byte of a message as it is. */
static void put_string(const Writer *w, TplString s) {
    size_t plain = 0; /* first byte not written yet */
    rp_tpl_put_text(w->t, "\"");
    for (size_t i = 0, len; i < s.n; i += len) {
        len              = rp_utf8_length(s.p + i, s.n - i);
        const uint32_t c = decode(s.p + i, len);
        if (c >= 0x20 && c != '"' && c != '\\' && !(w->style->ascii && c >= 0x7f)) continue;
        rp_tpl_put(w->t, rp_tpl_cut(s, plain, i));
        put_escaped(w->t, c);
        plain = i + len;
    }
    rp_tpl_put(w->t, rp_tpl_cut(s, plain, s.n));
    rp_tpl_put_text(w->t, "\"");
}

static void put_scalar(Writer *w, const TplValue *v) {
    char text[TPL_NUMBER_CHARS];
    switch (v->type) {
    case TPL_NONE:
        rp_tpl_put_text(w->t, "null");
        return;
    case TPL_BOOL:
        rp_tpl_put_text(w->t, v->b ? "true" : "false");
        return;
    case TPL_STRING:
        put_string(w, v->s);
        return;
    case TPL_INT:
    case TPL_BIG:
        rp_tpl_put_value(w->t, v);
        return;
    case TPL_FLOAT:
        rp_tpl_put_text(w->t, isnan(v->f)   ? "NaN"
                              : isinf(v->f) ? (v->f > 0 ? "Infinity" : "-Infinity")
                                            : rp_tpl_float_text(v->f, text));
        return;
    default:
        w->bad = v;
    }
}

static void new_line(const Writer *w, int depth) {
    if (w->style->indent.p == NULL) return;
    rp_tpl_put_text(w->t, "\n");
    for (int i = 0; i < depth; i++) rp_tpl_put(w->t, w->style->indent);
}

static void put_any(Writer *w, const TplValue *v, int depth);

static void put_name(Writer *w, const TplValue *key) {
    const bool quoted = key->type != TPL_STRING;
    if (quoted) rp_tpl_put_text(w->t, "\"");
    put_scalar(w, key);
    if (quoted) rp_tpl_put_text(w->t, "\"");
    rp_tpl_put(w->t, w->style->key);
}

static int by_name(const void *a, const void *b) {
    int sign = 0;
    return rp_tpl_compare(&((const TplPair *)a)->key, &((const TplPair *)b)->key, &sign) ? sign : 0;
}

static void put_members(Writer *w, const TplDict *d, int depth) {
    const TplPair *pairs = d->pairs;
    if (w->style->sort && d->n > 1) {
        TplPair *sorted = rp_tpl_alloc(w->t->arena, d->n * sizeof *sorted);
        w->t->failed    = w->t->failed || sorted == NULL;
        if (sorted == NULL) return;
        memcpy(sorted, d->pairs, d->n * sizeof *sorted);
        qsort(sorted, d->n, sizeof *sorted, by_name);
        pairs = sorted;
    }
    for (size_t i = 0; i < d->n && w->bad == NULL; i++) {
        if (i > 0) rp_tpl_put(w->t, w->style->item);
        new_line(w, depth + 1);
        put_name(w, &pairs[i].key);
        put_any(w, &pairs[i].value, depth + 1);
    }
}

static void put_any(Writer *w, const TplValue *v, int depth) {
    const bool list = v->type == TPL_LIST || v->type == TPL_TUPLE;
    if (w->t->failed || w->t->too_long) return;
    if (!list && v->type != TPL_DICT) {
        put_scalar(w, v);
        return;
    }
    const size_t n = list ? v->list->n : v->dict->n;
    rp_tpl_put_text(w->t, list ? "[" : "{");
    if (!list) put_members(w, v->dict, depth);
    for (size_t i = 0; list && i < n && w->bad == NULL; i++) {
        if (i > 0) rp_tpl_put(w->t, w->style->item);
        new_line(w, depth + 1);
        put_any(w, &v->list->items[i], depth + 1);
    }
    if (n > 0) new_line(w, depth);
    rp_tpl_put_text(w->t, list ? "]" : "}");
}

const TplValue *rp_tpl_put_json(TplText *t, const TplValue *v, const TplJsonStyle *style) {
    Writer w = {t, style, NULL};
    put_any(&w, v, 0);
    return w.bad;
}

static TplValue number(const Json *j, const JsonNode *node) {
    const RpGgufString s        = rp_json_string(j, node);
    const bool         negative = s.len > 0 && s.ptr[0] == '-';
    int64_t            x        = 0;
    for (size_t i = negative; i < s.len; i++) {
        const char c = s.ptr[i];
        if (c < '0' || c > '9') { /* a fraction, an exponent, NaN, Infinity */
            double f = (double)NAN;
            if (!rp_tpl_float_of(s.ptr, s.len, &f) && s.ptr[negative] == 'I')
                f = negative ? -(double)INFINITY : (double)INFINITY;
            return rp_tpl_float(f);
        }
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_sub_overflow(x, c - '0', &x)) {
            if (memchr(s.ptr, '.', s.len) != NULL || memchr(s.ptr, 'e', s.len) != NULL ||
                memchr(s.ptr, 'E', s.len) != NULL) {
                double f = (double)NAN;
                (void)rp_tpl_float_of(s.ptr, s.len, &f);
                return rp_tpl_float(f);
            }
            return (TplValue){
                .type = TPL_BIG, .s = {.p = s.ptr, .n = s.len}
            };
        }
    }
    if (!negative && x == INT64_MIN)
        return (TplValue){
            .type = TPL_BIG, .s = {.p = s.ptr, .n = s.len}
        };
    return rp_tpl_int(negative ? x : -x);
}

static RpStatus container(TplArena *a, const Json *j, const JsonNode *node, const TplJsonOrigin *origin,
                          TplValue *out) {
    RP_TRY(node->type == JSON_ARRAY ? rp_tpl_list_new(a, TPL_LIST, node->n, out) : rp_tpl_dict_new(a, out));
    if (node->type == JSON_OBJECT) {
        TPL_NEW(out->dict->pairs, a, node->n);
        out->dict->room = node->n;
    }
    for (const JsonNode *m = rp_json_first(j, node); m != NULL; m = rp_json_next(j, node, m)) {
        TplValue v;
        RP_TRY(rp_tpl_from_json(a, j, m, origin, &v));
        if (node->type == JSON_ARRAY) {
            RP_TRY(rp_tpl_list_push(a, out->list, v));
            continue;
        }
        const RpGgufString key = rp_json_key(j, m);
        if (v.type == TPL_STRING && origin->of_template != NULL) v.s.of_template = origin->of_template(key, v.s);
        RP_TRY(rp_tpl_dict_append(a, out->dict, rp_tpl_text(key.ptr, key.len, false), v));
    }
    return RP_OK;
}

RpStatus rp_tpl_from_json(TplArena *a, const Json *j, const JsonNode *node, const TplJsonOrigin *origin,
                          TplValue *out) {
    switch (node->type) {
    case JSON_NULL:
        *out = rp_tpl_none();
        return RP_OK;
    case JSON_FALSE:
    case JSON_TRUE:
        *out = rp_tpl_bool(node->type == JSON_TRUE);
        return RP_OK;
    case JSON_NUMBER:
        *out = number(j, node);
        return RP_OK;
    case JSON_STRING: {
        const RpGgufString s = rp_json_string(j, node);
        *out                 = rp_tpl_text(s.ptr, s.len, false);
        return RP_OK;
    }
    default:
        return container(a, j, node, origin, out);
    }
}
