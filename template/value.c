/* Values: strings, lists, dicts, equality and order (value.h). */
#include "template/value.h"

#include "base/text/utf8.h"

#include <string.h>

TplValue rp_tpl_text(const char *p, size_t n, bool of_template) {
    return rp_tpl_string((TplString){.p = p, .n = n, .of_template = of_template});
}

TplValue rp_tpl_word(const char *text) { return rp_tpl_text(text, strlen(text), true); }

TplString rp_tpl_cut(TplString s, size_t first, size_t end) {
    return (TplString){s.p + first, s.from != NULL ? s.from + first : NULL, end - first, s.of_template};
}

bool rp_tpl_is(TplString s, const char *text) { return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0; }

bool rp_tpl_same_text(TplString a, TplString b) { return a.n == b.n && memcmp(a.p, b.p, a.n) == 0; }

size_t rp_tpl_characters(TplString s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; n++) i += rp_utf8_length(s.p + i, s.n - i);
    return n;
}

size_t rp_tpl_byte_of(TplString s, size_t character) {
    size_t i = 0;
    for (; character > 0 && i < s.n; character--) i += rp_utf8_length(s.p + i, s.n - i);
    return i;
}

bool rp_tpl_is_sequence(TplType t) { return t == TPL_LIST || t == TPL_TUPLE || t == TPL_ITERATOR; }

RpStatus rp_tpl_list_new(TplArena *a, TplType type, size_t room, TplValue *out) {
    *out = (TplValue){.type = type};
    TPL_NEW(out->list, a, 1);
    TPL_NEW(out->list->items, a, room);
    out->list->room = room;
    return RP_OK;
}

/* Takes note that `v` is put into a list or dict. */
static RpStatus deepen(int *depth, const TplValue *v) {
    const int inner = rp_tpl_is_sequence(v->type) ? v->list->depth + 1 : v->type == TPL_DICT ? v->dict->depth + 1 : 0;
    if (inner > TPL_MAX_VALUE_DEPTH)
        return rp_fail(RP_E_UNSUPPORTED, "a template nests values more than %d deep", TPL_MAX_VALUE_DEPTH);
    if (inner > *depth) *depth = inner;
    return RP_OK;
}

RpStatus rp_tpl_list_push(TplArena *a, TplList *list, TplValue v) {
    RP_TRY(deepen(&list->depth, &v));
    if (list->n == list->room) {
        const size_t room = 2 * list->room + 4;
        TplValue    *items;
        TPL_NEW(items, a, room);
        if (list->n > 0) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->room  = room;
    }
    list->items[list->n++] = v;
    return RP_OK;
}

RpStatus rp_tpl_dict_new(TplArena *a, TplValue *out) {
    *out = (TplValue){.type = TPL_DICT};
    TPL_NEW(out->dict, a, 1);
    return RP_OK;
}

RpStatus rp_tpl_dict_append(TplArena *a, TplDict *d, TplValue key, TplValue v) {
    RP_TRY(deepen(&d->depth, &v));
    if (d->n == d->room) {
        const size_t room = 2 * d->room + 4;
        TplPair     *pairs;
        TPL_NEW(pairs, a, room);
        if (d->n > 0) memcpy(pairs, d->pairs, d->n * sizeof *pairs);
        d->pairs = pairs;
        d->room  = room;
    }
    d->pairs[d->n++] = (TplPair){key, v};
    return RP_OK;
}

RpStatus rp_tpl_dict_set(TplArena *a, TplDict *d, TplValue key, TplValue v) {
    for (size_t i = 0; i < d->n; i++)
        if (rp_tpl_equal(&d->pairs[i].key, &key)) {
            RP_TRY(deepen(&d->depth, &v));
            d->pairs[i].value = v;
            return RP_OK;
        }
    return rp_tpl_dict_append(a, d, key, v);
}

const TplValue *rp_tpl_dict_get(const TplDict *d, const TplValue *key) {
    if (key->type == TPL_STRING) return rp_tpl_dict_text(d, key->s);
    for (size_t i = 0; i < d->n; i++)
        if (rp_tpl_equal(&d->pairs[i].key, key)) return &d->pairs[i].value;
    return NULL;
}

const TplValue *rp_tpl_dict_text(const TplDict *d, TplString key) {
    for (size_t i = 0; i < d->n; i++)
        if (d->pairs[i].key.type == TPL_STRING && rp_tpl_same_text(d->pairs[i].key.s, key)) return &d->pairs[i].value;
    return NULL;
}

bool rp_tpl_truth(const TplValue *v) {
    switch (v->type) {
    case TPL_ABSENT:
    case TPL_UNDEFINED:
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v->b;
    case TPL_INT:
        return v->i != 0;
    case TPL_FLOAT:
        return v->f != 0;
    case TPL_STRING:
        return v->s.n > 0;
    case TPL_LIST:
    case TPL_TUPLE:
        return v->list->n > 0;
    case TPL_DICT:
        return v->dict->n > 0;
    default:
        return true; /* iterators, functions, ...: as objects in Python */
    }
}

bool rp_tpl_is_number(const TplValue *v) { return v->type == TPL_BOOL || v->type == TPL_INT || v->type == TPL_FLOAT; }

double rp_tpl_as_double(const TplValue *v) {
    return v->type == TPL_BOOL ? (double)v->b : v->type == TPL_INT ? (double)v->i : v->f;
}

static int64_t as_int(const TplValue *v) { return v->type == TPL_BOOL ? (int64_t)v->b : v->i; }

static bool equal_numbers(const TplValue *a, const TplValue *b) {
    if (a->type != TPL_FLOAT && b->type != TPL_FLOAT) return as_int(a) == as_int(b);
    return rp_tpl_as_double(a) == rp_tpl_as_double(b);
}

static bool equal_dicts(const TplDict *a, const TplDict *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const TplValue *other = rp_tpl_dict_get(b, &a->pairs[i].key);
        if (other == NULL || !rp_tpl_equal(&a->pairs[i].value, other)) return false;
    }
    return true;
}

bool rp_tpl_equal(const TplValue *a, const TplValue *b) {
    if (rp_tpl_is_number(a) && rp_tpl_is_number(b)) return equal_numbers(a, b);
    if (a->type != b->type) return false;
    switch (a->type) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        return true;
    case TPL_STRING:
    case TPL_BIG:
        return rp_tpl_same_text(a->s, b->s);
    case TPL_LIST:
    case TPL_TUPLE:
        if (a->list->n != b->list->n) return false;
        for (size_t i = 0; i < a->list->n; i++)
            if (!rp_tpl_equal(&a->list->items[i], &b->list->items[i])) return false;
        return true;
    case TPL_DICT:
        return equal_dicts(a->dict, b->dict);
    default:
        return a->list == b->list; /* the same object */
    }
}

const char *rp_tpl_type_name(const TplValue *v) {
    static const char *const names[] = {
        [TPL_ABSENT]    = "Undefined",
        [TPL_UNDEFINED] = "Undefined",
        [TPL_NONE]      = "NoneType",
        [TPL_BOOL]      = "bool",
        [TPL_INT]       = "int",
        [TPL_BIG]       = "int",
        [TPL_FLOAT]     = "float",
        [TPL_STRING]    = "str",
        [TPL_LIST]      = "list",
        [TPL_TUPLE]     = "tuple",
        [TPL_ITERATOR]  = "generator",
        [TPL_DICT]      = "dict",
        [TPL_NAMESPACE] = "Namespace",
        [TPL_LOOP]      = "LoopContext",
        [TPL_FUNCTION]  = "function",
        [TPL_MACRO]     = "Macro",
    };
    return names[v->type];
}

static int order(double x, double y) { return x < y ? -1 : x > y; }

bool rp_tpl_compare(const TplValue *a, const TplValue *b, int *out) {
    if (rp_tpl_is_number(a) && rp_tpl_is_number(b)) {
        const bool whole = a->type != TPL_FLOAT && b->type != TPL_FLOAT;
        *out             = whole ? (as_int(a) < as_int(b) ? -1 : as_int(a) > as_int(b))
                                 : order(rp_tpl_as_double(a), rp_tpl_as_double(b));
        return true;
    }
    if (a->type != b->type) return false;
    if (a->type == TPL_STRING) { /* the order of UTF-8 is that of the characters */
        const size_t n    = a->s.n < b->s.n ? a->s.n : b->s.n;
        const int    sign = n > 0 ? memcmp(a->s.p, b->s.p, n) : 0;
        *out              = sign != 0 ? (sign < 0 ? -1 : 1) : (a->s.n < b->s.n ? -1 : a->s.n > b->s.n);
        return true;
    }
    if (a->type != TPL_LIST && a->type != TPL_TUPLE) return false;
    for (size_t i = 0; i < a->list->n && i < b->list->n; i++)
        if (!rp_tpl_equal(&a->list->items[i], &b->list->items[i]))
            return rp_tpl_compare(&a->list->items[i], &b->list->items[i], out);
    *out = a->list->n < b->list->n ? -1 : a->list->n > b->list->n;
    return true;
}

TplValue rp_tpl_missing(const TplValue *of, TplString name) {
    return (TplValue){
        .type = TPL_UNDEFINED, .missing = {.name = name.p, .n = name.n, .owner = rp_tpl_type_name(of)}
    };
}
