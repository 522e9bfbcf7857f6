/* Filters of lists and dicts. Those that are generators in Python make iterators, which are walked once. */
#include "template/run.h"

#include <string.h>

/* The items, or none of a value that is false, even if it cannot be walked: so do map, select and their kin. */
static RpStatus some_items(TplRun *r, const TplValue *v, TplList *out) {
    *out = (TplList){0};
    return rp_tpl_truth(v) ? rp_tpl_iterate(r, v, out) : RP_OK;
}

/* The value of "a.b.0" of an item. */
static RpStatus path(TplRun *r, const TplValue *item, const TplValue *attribute, TplValue *out) {
    *out = *item;
    if (attribute->type != TPL_STRING) return rp_tpl_item(r, item, attribute, out);
    const TplString s = attribute->s;
    for (size_t first = 0; first <= s.n;) {
        const char  *dot = first < s.n ? memchr(s.p + first, '.', s.n - first) : NULL;
        const size_t end = dot != NULL ? (size_t)(dot - s.p) : s.n;
        TplValue     key = rp_tpl_string(rp_tpl_cut(s, first, end)), of = *out;
        int64_t      i = 0;
        size_t       k = 0;
        for (; k < key.s.n && key.s.p[k] >= '0' && key.s.p[k] <= '9' && i < INT32_MAX; k++)
            i = 10 * i + key.s.p[k] - '0';
        if (key.s.n > 0 && k == key.s.n) key = rp_tpl_int(i);
        RP_TRY(rp_tpl_item(r, &of, &key, out));
        first = end + 1;
    }
    return RP_OK;
}

static RpStatus join(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[2];
    TplList   items;
    TplString between = {.p = "", .of_template = true};
    TplText   t       = rp_tpl_new_text(r);
    RP_TRY(TPL_ARGUMENTS(r, call, in, "d", "attribute"));
    if (in[0].type != TPL_ABSENT) RP_TRY(rp_tpl_as_text(r, &in[0], &between));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    for (size_t i = 0; i < items.n; i++) {
        TplValue v = items.items[i];
        if (rp_tpl_truth(&in[1])) RP_TRY(path(r, &items.items[i], &in[1], &v));
        if (i > 0) rp_tpl_put(&t, between);
        rp_tpl_put_value(&t, &v);
    }
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus copy(TplRun *r, TplType type, const TplList *items, TplValue *out) {
    RP_TRY(rp_tpl_list_new(r->arena, type, items->n, out));
    for (size_t i = 0; i < items->n; i++) RP_TRY(rp_tpl_list_push(r->arena, out->list, items->items[i]));
    return RP_OK;
}

static RpStatus list(TplRun *r, const TplCall *call, TplValue *out) {
    TplList items;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    return copy(r, TPL_LIST, &items, out);
}

static RpStatus end_of(TplRun *r, const TplCall *call, TplValue *out) {
    static const char what[] = "an item of an empty sequence";
    TplList           items;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    *out = (TplValue){
        .type = TPL_UNDEFINED, .missing = {.name = what, .n = sizeof what - 1, .owner = NULL}
    };
    if (items.n > 0) *out = items.items[call->name[0] == 'f' ? 0 : items.n - 1];
    return RP_OK;
}

static RpStatus map(TplRun *r, const TplCall *call, TplValue *out) {
    TplList           items;
    const TplKeyword *attribute = NULL, *otherwise = NULL;
    for (size_t i = 0; i < call->n_keywords; i++) {
        if (rp_tpl_is(call->keywords[i].name, "attribute")) attribute = &call->keywords[i];
        if (rp_tpl_is(call->keywords[i].name, "default")) otherwise = &call->keywords[i];
    }
    const bool        by_filter = call->n > 0 && call->values[0].type == TPL_STRING;
    const TplBuiltin *filter    = by_filter ? rp_tpl_filter(call->values[0].s) : NULL;
    if (by_filter && filter == NULL)
        return rp_tpl_fail(r, "there is no filter '%.*s'", (int)call->values[0].s.n, call->values[0].s.p);
    if (filter == NULL && attribute == NULL) return rp_tpl_fail(r, "map needs a filter or attribute=");
    RP_TRY(some_items(r, &call->self, &items));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_ITERATOR, items.n, out));
    for (size_t i = 0; i < items.n; i++) {
        TplValue v;
        TplCall  inner = {.self = items.items[i], .n = call->n, .values = call->values};
        RP_TRY(rp_tpl_charge(r, 1));
        if (filter != NULL) {
            inner.name = filter->name;
            inner.values++, inner.n--;
            inner.keywords = call->keywords, inner.n_keywords = call->n_keywords;
            RP_TRY(filter->code(r, &inner, &v));
        } else {
            RP_TRY(path(r, &items.items[i], &attribute->value, &v));
            if (v.type == TPL_UNDEFINED && otherwise != NULL) v = otherwise->value;
        }
        RP_TRY(rp_tpl_list_push(r->arena, out->list, v));
    }
    return RP_OK;
}

/* select, reject, selectattr, rejectattr */
static RpStatus choose(TplRun *r, const TplCall *call, TplValue *out) {
    const bool   keep = call->name[0] == 's', by_attribute = strlen(call->name) > 6;
    const size_t used = by_attribute ? 1 : 0;
    TplList      items;
    if (by_attribute && call->n == 0) return rp_tpl_fail(r, "'%s' needs the name of an attribute", call->name);
    if (call->n > used && call->values[used].type != TPL_STRING)
        return rp_tpl_fail(r, "'%s' needs the name of a test, not '%s'", call->name,
                           rp_tpl_type_name(&call->values[used]));
    RP_TRY(some_items(r, &call->self, &items));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_ITERATOR, items.n, out));
    for (size_t i = 0; i < items.n; i++) {
        TplValue v = items.items[i];
        RP_TRY(rp_tpl_charge(r, 1));
        if (by_attribute) RP_TRY(path(r, &items.items[i], &call->values[0], &v));
        bool holds = rp_tpl_truth(&v);
        if (call->n > used) {
            const TplCall inner = {.self       = v,
                                   .values     = call->values + used + 1,
                                   .n          = call->n - used - 1,
                                   .keywords   = call->keywords,
                                   .n_keywords = call->n_keywords};
            RP_TRY(rp_tpl_test_value(r, call->values[used].s, &inner, &holds));
        }
        if (holds == keep) RP_TRY(rp_tpl_list_push(r->arena, out->list, items.items[i]));
    }
    return RP_OK;
}

/* The key that sort, unique, min and max compare: strings without regard to case, unless case_sensitive is set. */
static RpStatus sort_key(TplRun *r, const TplValue *item, const TplValue *attribute, bool case_sensitive,
                         TplValue *out) {
    *out = *item;
    if (rp_tpl_truth(attribute)) RP_TRY(path(r, item, attribute, out));
    return out->type == TPL_STRING && !case_sensitive ? rp_tpl_case(r, out->s, 'l', out) : RP_OK;
}

static RpStatus in_order(TplRun *r, const TplValue *a, const TplValue *b, bool reverse, bool *out) {
    int sign = 0;
    if (!rp_tpl_compare(a, b, &sign))
        return rp_tpl_fail(r, "'%s' and '%s' cannot be compared", rp_tpl_type_name(a), rp_tpl_type_name(b));
    *out = reverse ? sign >= 0 : sign <= 0;
    return RP_OK;
}

/* Merge sort of items by keys; equal ones keep their order. */
RpStatus rp_tpl_sort(TplRun *r, TplValue *items, const TplValue *keys, size_t n, bool reverse) {
    size_t   *order, *other;
    TplValue *sorted;
    if (n == 0) return RP_OK;
    TPL_NEW(order, r->arena, n);
    TPL_NEW(other, r->arena, n);
    TPL_NEW(sorted, r->arena, n);
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        RP_TRY(rp_tpl_charge(r, n));
        for (size_t first = 0; first < n; first += 2 * width) {
            const size_t middle = first + width < n ? first + width : n, end = middle + width < n ? middle + width : n;
            size_t       a = first, b = middle;
            for (size_t k = first; k < end; k++) {
                bool left = b == end;
                if (a < middle && b < end) RP_TRY(in_order(r, &keys[order[a]], &keys[order[b]], reverse, &left));
                other[k] = a < middle && left ? order[a++] : order[b++];
            }
        }
        size_t *swap = order;
        order        = other;
        other        = swap;
    }
    for (size_t i = 0; i < n; i++) sorted[i] = items[order[i]];
    memcpy(items, sorted, n * sizeof *items);
    return RP_OK;
}

static RpStatus sort(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[3], *keys;
    TplList  items;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "reverse", "case_sensitive", "attribute"));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    RP_TRY(copy(r, TPL_LIST, &items, out));
    TPL_NEW(keys, r->arena, items.n);
    for (size_t i = 0; i < items.n; i++) RP_TRY(sort_key(r, &items.items[i], &in[2], rp_tpl_truth(&in[1]), &keys[i]));
    return rp_tpl_sort(r, out->list->items, keys, items.n, rp_tpl_truth(&in[0]));
}

static RpStatus unique(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2], keys;
    TplList  items;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "case_sensitive", "attribute"));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_ITERATOR, items.n, out));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, items.n, &keys));
    for (size_t i = 0; i < items.n; i++) {
        TplValue key;
        bool     seen = false;
        RP_TRY(sort_key(r, &items.items[i], &in[1], rp_tpl_truth(&in[0]), &key));
        RP_TRY(rp_tpl_charge(r, keys.list->n));
        for (size_t k = 0; k < keys.list->n && !seen; k++) seen = rp_tpl_equal(&keys.list->items[k], &key);
        if (seen) continue;
        RP_TRY(rp_tpl_list_push(r->arena, keys.list, key));
        RP_TRY(rp_tpl_list_push(r->arena, out->list, items.items[i]));
    }
    return RP_OK;
}

static RpStatus extreme(TplRun *r, const TplCall *call, TplValue *out) {
    static const char what[] = "an item of an empty sequence";
    TplValue          in[2], best, key;
    TplList           items;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "case_sensitive", "attribute"));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    *out = (TplValue){
        .type = TPL_UNDEFINED, .missing = {.name = what, .n = sizeof what - 1, .owner = NULL}
    };
    for (size_t i = 0; i < items.n; i++) {
        bool keep = false;
        RP_TRY(sort_key(r, &items.items[i], &in[1], rp_tpl_truth(&in[0]), &key));
        if (i > 0) RP_TRY(in_order(r, &best, &key, call->name[1] == 'a', &keep));
        if (keep) continue;
        best = key;
        *out = items.items[i];
    }
    return RP_OK;
}

static RpStatus sum(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2];
    TplList  items;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "attribute", "start"));
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    *out = in[1].type != TPL_ABSENT ? in[1] : rp_tpl_int(0);
    for (size_t i = 0; i < items.n; i++) {
        TplValue v = items.items[i], all = *out;
        if (rp_tpl_truth(&in[0])) RP_TRY(path(r, &items.items[i], &in[0], &v));
        RP_TRY(rp_tpl_binary(r, TPL_O_ADD, &all, &v, out));
    }
    return RP_OK;
}

static RpStatus reverse(TplRun *r, const TplCall *call, TplValue *out) {
    const TplValue step[3] = {
        {.type = TPL_NONE},
        {               .type = TPL_NONE               },
        { .type = TPL_INT,                .i = -1}
    };
    TplValue items = {.type = TPL_LIST};
    TplList  list_of;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    if (call->self.type == TPL_STRING) return rp_tpl_slice(r, &call->self, step, out);
    RP_TRY(rp_tpl_iterate(r, &call->self, &list_of));
    items.list = &list_of;
    RP_TRY(rp_tpl_slice(r, &items, step, out));
    out->type = TPL_ITERATOR;
    return RP_OK;
}

static RpStatus batch(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2], group;
    TplList  items;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "linecount", "fill_with"));
    if (in[0].type != TPL_INT || in[0].i < 1) return rp_tpl_fail(r, "batch needs a positive number");
    RP_TRY(rp_tpl_iterate(r, &call->self, &items));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_ITERATOR, 0, out));
    const bool fill = in[1].type != TPL_ABSENT && in[1].type != TPL_NONE;
    for (size_t i = 0; i < items.n;) {
        RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, 0, &group));
        for (int64_t k = 0; k < in[0].i && (i < items.n || fill); k++, i++) {
            RP_TRY(rp_tpl_charge(r, 1));
            RP_TRY(rp_tpl_list_push(r->arena, group.list, i < items.n ? items.items[i] : in[1]));
        }
        RP_TRY(rp_tpl_list_push(r->arena, out->list, group));
    }
    return RP_OK;
}

const TplBuiltin rp_tpl_list_filters[] = {
    {"join",       join,    false},
    {"list",       list,    false},
    {"first",      end_of,  false},
    {"last",       end_of,  false},
    {"map",        map,     false},
    {"select",     choose,  false},
    {"reject",     choose,  false},
    {"sort",       sort,    false},
    {"selectattr", choose,  false},
    {"rejectattr", choose,  false},
    {"unique",     unique,  false},
    {"min",        extreme, false},
    {"max",        extreme, false},
    {"sum",        sum,     false},
    {"reverse",    reverse, false},
    {"batch",      batch,   false},
};
const size_t rp_tpl_n_list_filters = sizeof rp_tpl_list_filters / sizeof rp_tpl_list_filters[0];
