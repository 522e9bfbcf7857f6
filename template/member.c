/* Attributes and items of values. */
#include "template/run.h"

#include "base/text/utf8.h"

#include <string.h>

/* a.name: first what the object has, then the item of a dict. */
RpStatus rp_tpl_attribute(TplRun *r, const TplValue *a, TplString name, TplValue *out) {
    if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
    if (a->type == TPL_LOOP && rp_tpl_loop_attribute(a, name, out)) return RP_OK;
    const TplBuiltin *method = rp_tpl_method(a, name);
    if (method != NULL) return rp_tpl_bind(r, method, a, out);
    const bool      dict  = a->type == TPL_DICT || a->type == TPL_NAMESPACE;
    const TplValue *found = dict ? rp_tpl_dict_text(a->dict, name) : NULL;
    *out                  = found != NULL ? *found : rp_tpl_missing(a, name);
    return RP_OK;
}

/* The index of an item, counted from the end if it is negative; false: there is none. */
static bool index_of(const TplValue *key, size_t n, size_t *out) {
    const int64_t i = key->type == TPL_BOOL ? (int64_t)key->b : key->i;
    if (i < -(int64_t)n || i >= (int64_t)n) return false;
    *out = (size_t)(i < 0 ? i + (int64_t)n : i);
    return true;
}

/* a[key]: first the item, then what the object has. */
RpStatus rp_tpl_item(TplRun *r, const TplValue *a, const TplValue *key, TplValue *out) {
    static const char none[] = "of that index";
    if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
    const bool number = key->type == TPL_INT || key->type == TPL_BOOL;
    size_t     i;
    *out = rp_tpl_missing(a, key->type == TPL_STRING ? key->s : (TplString){.p = none, .n = sizeof none - 1});
    if ((a->type == TPL_LIST || a->type == TPL_TUPLE) && number) {
        if (index_of(key, a->list->n, &i)) *out = a->list->items[i];
        return RP_OK;
    }
    if (a->type == TPL_STRING && number) {
        RP_TRY(rp_tpl_charge(r, a->s.n / 64));
        if (!index_of(key, rp_tpl_characters(a->s), &i)) return RP_OK;
        const size_t first = rp_tpl_byte_of(a->s, i);
        *out = rp_tpl_string(rp_tpl_cut(a->s, first, first + rp_utf8_length(a->s.p + first, a->s.n - first)));
        return RP_OK;
    }
    if (a->type == TPL_DICT) {
        const TplValue *found = rp_tpl_dict_get(a->dict, key);
        RP_TRY(rp_tpl_charge(r, a->dict->n / 8));
        if (found != NULL) {
            *out = *found;
            return RP_OK;
        }
    }
    return key->type == TPL_STRING ? rp_tpl_attribute(r, a, key->s, out) : RP_OK;
}

/* depth is that of recursive loops, which there are none of. */
static bool loop_number(const TplLoop *l, TplString name, TplValue *out) {
    const int64_t i = (int64_t)l->index, n = (int64_t)l->items->n;
    const struct {
        const char *name;
        int64_t     value;
    } numbers[] = {
        {"index",     i + 1    },
        {"index0",    i        },
        {"revindex",  n - i    },
        {"revindex0", n - i - 1},
        {"length",    n        },
        {"depth",     1        },
        {"depth0",    0        }
    };
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        if (rp_tpl_is(name, numbers[k].name)) {
            *out = rp_tpl_int(numbers[k].value);
            return true;
        }
    return false;
}

bool rp_tpl_loop_attribute(const TplValue *loop, TplString name, TplValue *out) {
    const TplLoop *l    = loop->loop;
    const bool     next = rp_tpl_is(name, "nextitem");
    if (loop_number(l, name, out)) return true;
    if (rp_tpl_is(name, "first") || rp_tpl_is(name, "last")) {
        *out = rp_tpl_bool(name.p[0] == 'f' ? l->index == 0 : l->index + 1 == l->items->n);
        return true;
    }
    if (!next && !rp_tpl_is(name, "previtem")) return false;
    if (next ? l->index + 1 < l->items->n : l->index > 0)
        *out = l->items->items[next ? l->index + 1 : l->index - 1];
    else
        *out = rp_tpl_missing(loop, name);
    return true;
}
