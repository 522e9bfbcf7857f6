/* Filters of any value: JSON, defaults, numbers, and dicts. */
#include "template/json.h"
#include "template/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* As transformers defines it: json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False). */
static RpStatus tojson(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue     in[4], blank = rp_tpl_word(" ");
    TplText      t     = rp_tpl_new_text(r);
    TplJsonStyle style = {.item = rp_tpl_word(", ").s, .key = rp_tpl_word(": ").s};
    RP_TRY(TPL_ARGUMENTS(r, call, in, "ensure_ascii", "indent", "separators", "sort_keys"));
    style.ascii = rp_tpl_truth(&in[0]);
    style.sort  = rp_tpl_truth(&in[3]);
    if (in[1].type == TPL_INT || in[1].type == TPL_BOOL) {
        if (in[1].type == TPL_BOOL) in[1] = rp_tpl_int(in[1].b);
        RP_TRY(rp_tpl_binary(r, TPL_O_MUL, &blank, &in[1], &in[1]));
    }
    if (in[1].type == TPL_STRING) {
        style.indent = in[1].s;
        style.item   = rp_tpl_word(",").s;
    }
    if (in[2].type == TPL_LIST || in[2].type == TPL_TUPLE) {
        const TplList *l = in[2].list;
        if (l->n != 2 || l->items[0].type != TPL_STRING || l->items[1].type != TPL_STRING)
            return rp_tpl_fail(r, "the separators of tojson must be two strings");
        style.item = l->items[0].s;
        style.key  = l->items[1].s;
    }
    const TplValue *bad = rp_tpl_put_json(&t, &call->self, &style);
    if (bad != NULL)
        return bad->type == TPL_UNDEFINED ? rp_tpl_undefined(r, bad)
                                          : rp_tpl_fail(r, "'%s' has no JSON", rp_tpl_type_name(bad));
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus otherwise(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2];
    RP_TRY(TPL_ARGUMENTS(r, call, in, "default_value", "boolean"));
    const bool keep = rp_tpl_truth(&in[1]) ? rp_tpl_truth(&call->self) : call->self.type != TPL_UNDEFINED;
    *out            = keep ? call->self : in[0].type != TPL_ABSENT ? in[0] : rp_tpl_word("");
    return RP_OK;
}

static RpStatus length(TplRun *r, const TplCall *call, TplValue *out) {
    *out = rp_tpl_int(0);
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    return rp_tpl_length(r, &call->self, &out->i);
}

/* A number, or a string that spells one; white space around it does not matter. */
static bool number_of(const TplValue *v, double *f) {
    const TplString s =
        v->type == TPL_STRING || v->type == TPL_BIG ? rp_tpl_strip(v->s, NULL, true, true) : (TplString){0};
    if (rp_tpl_is_number(v)) {
        *f = rp_tpl_as_double(v);
        return true;
    }
    return s.n > 0 && rp_tpl_float_of(s.p, s.n, f);
}

static bool whole_number_of(const TplValue *v, int64_t base, int64_t *i) {
    const TplString s        = rp_tpl_strip(v->s, NULL, true, true);
    const bool      negative = s.n > 0 && s.p[0] == '-';
    *i                       = 0;
    size_t     k             = s.n > 0 && (negative || s.p[0] == '+');
    const char prefix        = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '0';
    if (k + 1 < s.n && s.p[k] == '0' && (s.p[k + 1] | 0x20) == prefix) k += 2;
    for (; k < s.n; k++) {
        const char c = s.p[k], low = (char)(c | 0x20);
        const int  digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
        if (digit >= base || __builtin_mul_overflow(*i, base, i) || __builtin_add_overflow(*i, digit, i)) return false;
    }
    if (negative) *i = -*i;
    return s.n > 0 && s.p[s.n - 1] != '-' && s.p[s.n - 1] != '+';
}

static RpStatus to_int(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2];
    int64_t  i = 0;
    double   f = 0;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "default", "base"));
    *out = in[0].type != TPL_ABSENT ? in[0] : rp_tpl_int(0);
    if (call->self.type == TPL_UNDEFINED) return rp_tpl_undefined(r, &call->self);
    if (call->self.type == TPL_INT || call->self.type == TPL_BIG)
        *out = call->self;
    else if (call->self.type == TPL_STRING && whole_number_of(&call->self, in[1].type == TPL_INT ? in[1].i : 10, &i))
        *out = rp_tpl_int(i);
    else if (number_of(&call->self, &f) && f > -9e18 && f < 9e18)
        *out = rp_tpl_int((int64_t)f);
    return RP_OK;
}

static RpStatus to_float(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[1];
    double   f = 0;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "default"));
    if (call->self.type == TPL_UNDEFINED) return rp_tpl_undefined(r, &call->self);
    *out = number_of(&call->self, &f) ? rp_tpl_float(f) : in[0].type != TPL_ABSENT ? in[0] : rp_tpl_float(0);
    return RP_OK;
}

static RpStatus absolute(TplRun *r, const TplCall *call, TplValue *out) {
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_unary(r, TPL_O_PLUS, &call->self, out));
    return rp_tpl_as_double(out) < 0 ? rp_tpl_unary(r, TPL_O_NEGATE, &call->self, out) : RP_OK;
}

static RpStatus round_to(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2];
    char     text[400];
    RP_TRY(TPL_ARGUMENTS(r, call, in, "precision", "method"));
    RP_TRY(rp_tpl_unary(r, TPL_O_PLUS, &call->self, out));
    if (in[1].type == TPL_ABSENT && out->type == TPL_INT) return RP_OK;
    const int    digits = in[0].type == TPL_INT && in[0].i >= 0 && in[0].i < 30 ? (int)in[0].i : 0;
    const double x = rp_tpl_as_double(out), scale = pow(10, digits);
    double       y = x;
    if (in[1].type == TPL_STRING && rp_tpl_is(in[1].s, "ceil")) {
        y = ceil(x * scale) / scale;
    } else if (in[1].type == TPL_STRING && rp_tpl_is(in[1].s, "floor")) {
        y = floor(x * scale) / scale;
    } else if (isfinite(x)) { /* to nearest, of ties to even, as printf does */
        const int n = snprintf(text, sizeof text, "%.*f", digits, x);
        for (int i = 0; i < n; i++)
            if ((text[i] < '0' || text[i] > '9') && text[i] != '-') text[i] = '.';
        (void)rp_tpl_float_of(text, (size_t)n, &y);
    }
    *out = rp_tpl_float(y);
    return RP_OK;
}

/* x|attr("name"): an attribute, but not an item. */
static RpStatus attribute(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[1];
    RP_TRY(TPL_ARGUMENTS(r, call, in, "name"));
    if (in[0].type != TPL_STRING) return rp_tpl_fail(r, "attr needs a name");
    if (call->self.type != TPL_DICT) return rp_tpl_attribute(r, &call->self, in[0].s, out);
    const TplBuiltin *method = rp_tpl_method(&call->self, in[0].s);
    *out                     = (TplValue){
                            .type = TPL_UNDEFINED, .missing = {.name = in[0].s.p, .n = in[0].s.n, .owner = "dict"}
    };
    return method != NULL ? rp_tpl_bind(r, method, &call->self, out) : RP_OK;
}

static RpStatus pair(TplRun *r, const TplPair *p, TplList *list) {
    TplValue two;
    RP_TRY(rp_tpl_list_new(r->arena, TPL_TUPLE, 2, &two));
    RP_TRY(rp_tpl_list_push(r->arena, two.list, p->key));
    RP_TRY(rp_tpl_list_push(r->arena, two.list, p->value));
    return rp_tpl_list_push(r->arena, list, two);
}

static RpStatus items(TplRun *r, const TplCall *call, TplValue *out) {
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_ITERATOR, 0, out));
    if (call->self.type == TPL_UNDEFINED) return RP_OK;
    if (call->self.type != TPL_DICT)
        return rp_tpl_fail(r, "items needs a dict, not '%s'", rp_tpl_type_name(&call->self));
    for (size_t i = 0; i < call->self.dict->n; i++) RP_TRY(pair(r, &call->self.dict->pairs[i], out->list));
    return rp_tpl_charge(r, call->self.dict->n);
}

static RpStatus dictsort(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[3], *keys;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "case_sensitive", "by", "reverse"));
    if (call->self.type == TPL_UNDEFINED) return rp_tpl_undefined(r, &call->self);
    if (call->self.type != TPL_DICT)
        return rp_tpl_fail(r, "dictsort needs a dict, not '%s'", rp_tpl_type_name(&call->self));
    const TplDict *d     = call->self.dict;
    const bool     value = in[1].type == TPL_STRING && rp_tpl_is(in[1].s, "value");
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, d->n, out));
    TPL_NEW(keys, r->arena, d->n);
    for (size_t i = 0; i < d->n; i++) {
        keys[i] = value ? d->pairs[i].value : d->pairs[i].key;
        if (keys[i].type == TPL_STRING && !rp_tpl_truth(&in[0])) RP_TRY(rp_tpl_case(r, keys[i].s, 'l', &keys[i]));
        RP_TRY(pair(r, &d->pairs[i], out->list));
    }
    return rp_tpl_sort(r, out->list->items, keys, d->n, rp_tpl_truth(&in[2]));
}

const TplBuiltin rp_tpl_value_filters[] = {
    {"tojson",   tojson,    false},
    {"default",  otherwise, false},
    {"d",        otherwise, false},
    {"length",   length,    false},
    {"count",    length,    false},
    {"int",      to_int,    false},
    {"float",    to_float,  false},
    {"abs",      absolute,  false},
    {"round",    round_to,  false},
    {"attr",     attribute, false},
    {"items",    items,     false},
    {"dictsort", dictsort,  false},
};
const size_t rp_tpl_n_value_filters = sizeof rp_tpl_value_filters / sizeof rp_tpl_value_filters[0];
