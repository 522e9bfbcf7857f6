/* Texts in the making, numbers and values as text (text.h). */
#include "template/text.h"

#include "base/text/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(TplText *t, size_t n) {
    if (n > t->limit - t->n) t->too_long = true;
    if (t->failed || t->too_long) return false;
    if (t->n + n <= t->room) return true;
    const size_t room = 2 * (t->n + n) + 32;
    char        *p    = rp_tpl_alloc(t->arena, room);
    bool        *from = p != NULL ? rp_tpl_alloc(t->arena, room) : NULL;
    t->failed         = from == NULL;
    if (t->failed) return false;
    if (t->n > 0) memcpy(p, t->p, t->n), memcpy(from, t->from, t->n);
    t->p    = p;
    t->from = from;
    t->room = room;
    return true;
}

void rp_tpl_put(TplText *t, TplString s) {
    if (s.n == 0 || !grow(t, s.n)) return;
    memcpy(t->p + t->n, s.p, s.n);
    if (s.from != NULL)
        memcpy(t->from + t->n, s.from, s.n);
    else
        memset(t->from + t->n, s.of_template, s.n);
    t->n += s.n;
}

void rp_tpl_put_bytes(TplText *t, const char *p, size_t n, bool of_template) {
    rp_tpl_put(t, (TplString){.p = p, .n = n, .of_template = of_template});
}

void rp_tpl_put_text(TplText *t, const char *text) { rp_tpl_put_bytes(t, text, strlen(text), true); }

void rp_tpl_put_code(TplText *t, uint32_t c, bool of_template) {
    char   p[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    p[0]     = (char)(n == 1 ? c : n == 2 ? 0xc0 | c >> 6 : n == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
    for (size_t i = 1; i < n; i++) p[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
    rp_tpl_put_bytes(t, p, n, of_template);
}

RpStatus rp_tpl_text_end(TplText *t, TplString *out) {
    if (t->failed || t->too_long) return rp_tpl_no_memory(t->arena);
    *out = (TplString){t->n > 0 ? t->p : "", t->n > 0 ? t->from : NULL, t->n, true};
    return RP_OK;
}

static double plain_strtod(const char *text) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc returns a static one */
    if (plain == (locale_t)0) return (double)NAN;
    const double x = strtod_l(text, NULL, plain);
    freelocale(plain);
    return x;
}

static bool digits(const char **p, const char *end) {
    const char *first = *p;
    while (*p < end && **p >= '0' && **p <= '9') ++*p;
    return *p > first;
}

bool rp_tpl_float_of(const char *p, size_t n, double *out) {
    char        copy[400];
    const char *at = p, *end = p + n;
    if (n == 0 || n >= sizeof copy) return false;
    if (*at == '+' || *at == '-') at++;
    bool whole = digits(&at, end);
    if (at < end && *at == '.') {
        at++;
        whole = digits(&at, end) || whole;
    }
    if (whole && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        whole = digits(&at, end);
    }
    if (!whole || at != end) return false;
    memcpy(copy, p, n);
    copy[n] = '\0';
    *out    = plain_strtod(copy);
    return true;
}

/* Digits and exponent of the shortest form d.ddd e x that reads as |x|. */
static int shortest(double x, char digits_out[20], int *n) {
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(x));
        for (char *p = text; *p != '\0'; p++) /* the point of the locale */
            if ((*p < '0' || *p > '9') && *p != 'e' && *p != '+' && *p != '-') *p = '.';
        if (plain_strtod(text) == fabs(x)) break;
    }
    *n            = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p != '.' && *n < 19) digits_out[(*n)++] = *p;
    while (*n > 1 && digits_out[*n - 1] == '0') --*n;
    return atoi(p + 1);
}

const char *rp_tpl_float_text(double x, char out[TPL_NUMBER_CHARS]) {
    char d[20], *p = out;
    int  n;
    if (isnan(x)) return "nan";
    if (isinf(x)) return x > 0 ? "inf" : "-inf";
    const int e = shortest(x, d, &n);
    if (signbit(x)) *p++ = '-';
    if (e < -4 || e >= 16) {
        *p++ = d[0];
        if (n > 1) *p++ = '.';
        for (int i = 1; i < n; i++) *p++ = d[i];
        snprintf(p, (size_t)(out + TPL_NUMBER_CHARS - p), "e%c%02d", e < 0 ? '-' : '+', abs(e));
        return out;
    }
    if (e < 0) *p++ = '0', *p++ = '.';
    for (int i = e + 1; i < 0; i++) *p++ = '0';
    for (int i = 0; i < n || i <= e; i++) {
        if (i == e + 1 && e >= 0) *p++ = '.';
        *p++ = i < n ? d[i] : '0';
    }
    if (e >= 0 && n <= e + 1) *p++ = '.', *p++ = '0';
    *p = '\0';
    return out;
}

static void put_list(TplText *t, const TplValue *v) {
    rp_tpl_put_text(t, v->type == TPL_TUPLE ? "(" : "[");
    for (size_t i = 0; i < v->list->n && !t->failed && !t->too_long; i++) {
        if (i > 0) rp_tpl_put_text(t, ", ");
        rp_tpl_put_repr(t, &v->list->items[i]);
    }
    rp_tpl_put_text(t, v->type == TPL_TUPLE ? (v->list->n == 1 ? ",)" : ")") : "]");
}

static void put_dict(TplText *t, const TplDict *d) {
    rp_tpl_put_text(t, "{");
    for (size_t i = 0; i < d->n && !t->failed && !t->too_long; i++) {
        if (i > 0) rp_tpl_put_text(t, ", ");
        rp_tpl_put_repr(t, &d->pairs[i].key);
        rp_tpl_put_text(t, ": ");
        rp_tpl_put_repr(t, &d->pairs[i].value);
    }
    rp_tpl_put_text(t, "}");
}

void rp_tpl_put_value(TplText *t, const TplValue *v) {
    char text[TPL_NUMBER_CHARS];
    switch (v->type) {
    case TPL_ABSENT:
    case TPL_UNDEFINED:
        return;
    case TPL_NONE:
        rp_tpl_put_text(t, "None");
        return;
    case TPL_BOOL:
        rp_tpl_put_text(t, v->b ? "True" : "False");
        return;
    case TPL_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->i);
        rp_tpl_put_text(t, text);
        return;
    case TPL_FLOAT:
        rp_tpl_put_text(t, rp_tpl_float_text(v->f, text));
        return;
    case TPL_BIG:
    case TPL_STRING:
        rp_tpl_put(t, v->s);
        return;
    case TPL_LIST:
    case TPL_TUPLE:
        put_list(t, v);
        return;
    case TPL_DICT:
        put_dict(t, v->dict);
        return;
    default: /* Python prints an address here */
        rp_tpl_put_text(t, "<");
        rp_tpl_put_text(t, rp_tpl_type_name(v));
        rp_tpl_put_text(t, " object>");
    }
}

static void put_repr_byte(TplText *t, TplString s, size_t i, char quote) {
    const unsigned char c = (unsigned char)s.p[i];
    char                escape[8];
    const char *short_form = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
    if (short_form != NULL || c == (unsigned char)quote) {
        snprintf(escape, sizeof escape, "%s%c", "\\", quote);
        rp_tpl_put_text(t, short_form != NULL ? short_form : escape);
    } else if (c < 0x20 || c == 0x7f) {
        snprintf(escape, sizeof escape, "\\x%02x", c);
        rp_tpl_put_text(t, escape);
    } else {
        rp_tpl_put(t, rp_tpl_cut(s, i, i + 1));
    }
}

/* Python escapes more characters that do not print; of those beyond U+009F only the two that texts have. */
static void put_repr_text(TplText *t, TplString s) {
    const bool single = memchr(s.p, '\'', s.n) == NULL || memchr(s.p, '"', s.n) != NULL;
    const char quote  = single ? '\'' : '"';
    rp_tpl_put_bytes(t, &quote, 1, true);
    for (size_t i = 0, len; i < s.n; i += len) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        char                 escape[8];
        len = rp_utf8_length(s.p + i, s.n - i);
        if (len == 2 && p[0] == 0xc2 && (p[1] <= 0xa0 || p[1] == 0xad)) {
            snprintf(escape, sizeof escape, "\\x%02x", p[1]);
            rp_tpl_put_text(t, escape);
        } else if (len == 1) {
            put_repr_byte(t, s, i, quote);
        } else {
            rp_tpl_put(t, rp_tpl_cut(s, i, i + len));
        }
    }
    rp_tpl_put_bytes(t, &quote, 1, true);
}

void rp_tpl_put_repr(TplText *t, const TplValue *v) {
    if (v->type == TPL_STRING)
        put_repr_text(t, v->s);
    else if (v->type == TPL_UNDEFINED)
        rp_tpl_put_text(t, "Undefined");
    else
        rp_tpl_put_value(t, v);
}
