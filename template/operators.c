/* Operators, as Python's. */
#include "template/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *sign_of(TplOperator op) {
    static const char *const signs[] = {
        [TPL_O_ADD] = "+", [TPL_O_SUB] = "-",        [TPL_O_MUL] = "*",    [TPL_O_DIV] = "/",  [TPL_O_FLOOR_DIV] = "//",
        [TPL_O_MOD] = "%", [TPL_O_POW] = "**",       [TPL_O_NEGATE] = "-", [TPL_O_PLUS] = "+", [TPL_O_EQ] = "==",
        [TPL_O_NE] = "!=", [TPL_O_LT] = "<",         [TPL_O_LE] = "<=",    [TPL_O_GT] = ">",   [TPL_O_GE] = ">=",
        [TPL_O_IN] = "in", [TPL_O_NOT_IN] = "not in"};
    return signs[op];
}

static RpStatus wrong_types(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b) {
    if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
    if (b->type == TPL_UNDEFINED) return rp_tpl_undefined(r, b);
    return rp_tpl_fail(r, "'%s' does not take '%s' and '%s'", sign_of(op), rp_tpl_type_name(a), rp_tpl_type_name(b));
}

static RpStatus too_large(TplRun *r) { return rp_tpl_fail(r, "an integer does not fit into 64 bits"); }

static bool whole_power(int64_t x, int64_t n, int64_t *out) {
    *out = 1;
    for (; n > 0; n /= 2) {
        if (n % 2 == 1 && __builtin_mul_overflow(*out, x, out)) return false;
        if (n > 1 && __builtin_mul_overflow(x, x, &x)) return false;
    }
    return true;
}

static RpStatus whole_numbers(TplRun *r, TplOperator op, int64_t x, int64_t y, TplValue *out) {
    int64_t z    = 0;
    bool    fits = true;
    if ((op == TPL_O_FLOOR_DIV || op == TPL_O_MOD) && y == 0) return rp_tpl_fail(r, "division by zero");
    if (op == TPL_O_ADD) {
        fits = !__builtin_add_overflow(x, y, &z);
    } else if (op == TPL_O_SUB) {
        fits = !__builtin_sub_overflow(x, y, &z);
    } else if (op == TPL_O_MUL) {
        fits = !__builtin_mul_overflow(x, y, &z);
    } else if (op == TPL_O_POW) {
        fits = whole_power(x, y, &z);
    } else if (y == -1) { /* INT64_MIN / -1 does not fit */
        fits = op == TPL_O_MOD || x != INT64_MIN;
        z    = op == TPL_O_MOD || !fits ? 0 : -x;
    } else { /* rounded down, and the remainder has the sign of y */
        const int64_t remainder = x % y;
        const bool    down      = remainder != 0 && (remainder < 0) != (y < 0);
        z                       = op == TPL_O_MOD ? remainder + (down ? y : 0) : x / y - down;
    }
    *out = rp_tpl_int(z);
    return fits ? RP_OK : too_large(r);
}

static RpStatus numbers(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b, TplValue *out) {
    const double x = rp_tpl_as_double(a), y = rp_tpl_as_double(b);
    const bool   whole = a->type != TPL_FLOAT && b->type != TPL_FLOAT;
    if (whole && op != TPL_O_DIV && !(op == TPL_O_POW && y < 0))
        return whole_numbers(r, op, a->type == TPL_BOOL ? a->b : a->i, b->type == TPL_BOOL ? b->b : b->i, out);
    if ((op == TPL_O_DIV || op == TPL_O_FLOOR_DIV || op == TPL_O_MOD) && !(y < 0 || y > 0) && !isnan(y))
        return rp_tpl_fail(r, "division by zero");
    const double quotient = x / y;
    double       z        = quotient;
    if (op == TPL_O_ADD) z = x + y;
    if (op == TPL_O_SUB) z = x - y;
    if (op == TPL_O_MUL) z = x * y;
    if (op == TPL_O_POW) z = pow(x, y);
    if (op == TPL_O_FLOOR_DIV) z = floor(quotient);
    if (op == TPL_O_MOD) {
        z = fmod(x, y);
        if ((z < 0 && y > 0) || (z > 0 && y < 0)) z += y;
    }
    *out = rp_tpl_float(z);
    return RP_OK;
}

static RpStatus join_lists(TplRun *r, const TplValue *a, const TplValue *b, TplValue *out) {
    RP_TRY(rp_tpl_charge(r, a->list->n + b->list->n));
    RP_TRY(rp_tpl_list_new(r->arena, a->type, a->list->n + b->list->n, out));
    for (size_t i = 0; i < a->list->n; i++) RP_TRY(rp_tpl_list_push(r->arena, out->list, a->list->items[i]));
    for (size_t i = 0; i < b->list->n; i++) RP_TRY(rp_tpl_list_push(r->arena, out->list, b->list->items[i]));
    return RP_OK;
}

static RpStatus repeat(TplRun *r, const TplValue *v, int64_t times, TplValue *out) {
    TplText      t    = rp_tpl_new_text(r);
    const bool   text = v->type == TPL_STRING;
    const size_t n    = text ? v->s.n : v->list->n;
    if (!text) RP_TRY(rp_tpl_list_new(r->arena, v->type, 0, out));
    for (int64_t k = 0; k < times && n > 0; k++) {
        RP_TRY(rp_tpl_charge(r, text ? 1 : n));
        if (text) rp_tpl_put(&t, v->s);
        if (t.too_long || t.failed) break;
        for (size_t i = 0; !text && i < n; i++) RP_TRY(rp_tpl_list_push(r->arena, out->list, v->list->items[i]));
    }
    return text ? rp_tpl_end_text(r, &t, out) : RP_OK;
}

RpStatus rp_tpl_binary(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b, TplValue *out) {
    const bool lists = (a->type == TPL_LIST || a->type == TPL_TUPLE) && a->type == b->type;
    if (rp_tpl_is_number(a) && rp_tpl_is_number(b)) return numbers(r, op, a, b, out);
    if (op == TPL_O_ADD && lists) return join_lists(r, a, b, out);
    if (op == TPL_O_ADD && a->type == TPL_STRING && b->type == TPL_STRING) {
        TplText t = rp_tpl_new_text(r);
        rp_tpl_put(&t, a->s);
        rp_tpl_put(&t, b->s);
        return rp_tpl_end_text(r, &t, out);
    }
    if (op == TPL_O_MUL) {
        const TplValue *n = b->type == TPL_INT ? b : a, *v = b->type == TPL_INT ? a : b;
        if (n->type == TPL_INT && (v->type == TPL_STRING || v->type == TPL_LIST || v->type == TPL_TUPLE))
            return repeat(r, v, n->i, out);
    }
    if (op == TPL_O_MOD && a->type == TPL_STRING) {
        const bool many = b->type == TPL_TUPLE;
        return rp_tpl_format(r, a->s, many ? b->list->items : b, many ? b->list->n : 1, out);
    }
    return wrong_types(r, op, a, b);
}

RpStatus rp_tpl_unary(TplRun *r, TplOperator op, const TplValue *a, TplValue *out) {
    *out = *a;
    if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
    if (!rp_tpl_is_number(a)) return rp_tpl_fail(r, "'%s' does not take '%s'", sign_of(op), rp_tpl_type_name(a));
    if (a->type == TPL_BOOL) *out = rp_tpl_int(a->b);
    if (op != TPL_O_NEGATE) return RP_OK;
    if (out->type == TPL_FLOAT)
        out->f = -out->f;
    else if (out->i == INT64_MIN)
        return too_large(r);
    else
        out->i = -out->i;
    return RP_OK;
}

static RpStatus contains(TplRun *r, const TplValue *a, const TplValue *b, bool *out) {
    TplList items;
    *out = false;
    if (b->type == TPL_STRING) {
        if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
        if (a->type != TPL_STRING)
            return rp_tpl_fail(r, "'in' needs a string in front of it, not '%s'", rp_tpl_type_name(a));
        *out = a->s.n == 0 || memmem(b->s.p, b->s.n, a->s.p, a->s.n) != NULL;
        return rp_tpl_charge(r, b->s.n / 64);
    }
    if (b->type == TPL_DICT) {
        *out = rp_tpl_dict_get(b->dict, a) != NULL;
        return rp_tpl_charge(r, b->dict->n / 8);
    }
    RP_TRY(rp_tpl_iterate(r, b, &items));
    for (size_t i = 0; i < items.n && !*out; i++) *out = rp_tpl_equal(&items.items[i], a);
    return RP_OK;
}

RpStatus rp_tpl_compare_values(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b, bool *out) {
    int sign = 0;
    if (op == TPL_O_EQ || op == TPL_O_NE) {
        *out = rp_tpl_equal(a, b) == (op == TPL_O_EQ);
        return RP_OK;
    }
    if (op == TPL_O_IN || op == TPL_O_NOT_IN) {
        RP_TRY(contains(r, a, b, out));
        *out = *out == (op == TPL_O_IN);
        return RP_OK;
    }
    if (!rp_tpl_compare(a, b, &sign)) return wrong_types(r, op, a, b);
    *out = op == TPL_O_LT ? sign < 0 : op == TPL_O_LE ? sign <= 0 : op == TPL_O_GT ? sign > 0 : sign >= 0;
    return RP_OK;
}

/* The directives of Python's % that templates use: %s %r %d %i %f with a precision, %%. */
static RpStatus put_directive(TplRun *r, TplText *t, char kind, int precision, const TplValue *v) {
    char text[400];
    if (kind == 's' || kind == 'r') {
        (kind == 's' ? rp_tpl_put_value : rp_tpl_put_repr)(t, v);
        return RP_OK;
    }
    if (!rp_tpl_is_number(v)) return rp_tpl_fail(r, "%%%c needs a number, not '%s'", kind, rp_tpl_type_name(v));
    if (kind == 'f') {
        const int n = snprintf(text, sizeof text, "%.*f", precision < 0 ? 6 : precision, rp_tpl_as_double(v));
        for (int i = 0; i < n; i++) /* the point of the locale */
            if ((text[i] < '0' || text[i] > '9') && text[i] != '-' && !(text[i] >= 'a' && text[i] <= 'z'))
                text[i] = '.';
        rp_tpl_put_text(t, text);
        return RP_OK;
    }
    const double x = rp_tpl_as_double(v);
    if (!(x > -9e18 && x < 9e18)) return too_large(r);
    const TplValue whole = rp_tpl_int(v->type == TPL_INT ? v->i : (int64_t)x);
    rp_tpl_put_value(t, &whole);
    return RP_OK;
}

RpStatus rp_tpl_format(TplRun *r, TplString s, const TplValue *values, size_t n, TplValue *out) {
    TplText t    = rp_tpl_new_text(r);
    size_t  used = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%') {
            rp_tpl_put(&t, rp_tpl_cut(s, i, i + 1));
            continue;
        }
        int precision = -1;
        if (++i < s.n && s.p[i] == '.') {
            precision = 0;
            for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && precision < 50; i++)
                precision = 10 * precision + s.p[i] - '0';
        }
        const char kind = i < s.n ? s.p[i] : '\0';
        if (kind == '%') {
            rp_tpl_put(&t, rp_tpl_cut(s, i, i + 1));
            continue;
        }
        if (kind == '\0' || strchr("srdif", kind) == NULL)
            return rp_tpl_fail(r, "the directive '%%%c' of a format is not supported", kind == '\0' ? ' ' : kind);
        if (used == n) return rp_tpl_fail(r, "there are too few values for a format");
        RP_TRY(put_directive(r, &t, kind, precision < 50 ? precision : 50, &values[used++]));
    }
    if (used < n && !(n == 1 && values[0].type == TPL_DICT))
        return rp_tpl_fail(r, "there are too many values for a format");
    return rp_tpl_end_text(r, &t, out);
}
