/* Slices of values, walking over them, and their length. */
#include "template/run.h"

#include "base/text/utf8.h"

/* Bounds of a slice as Python finds them. */
typedef struct Slice {
    int64_t first, end, step;
} Slice;

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high) {
    if (i < 0) i = i < -n ? -1 - n : i;
    if (i < 0) i += n;
    return i < low ? low : i > high ? high : i;
}

static RpStatus slice_bounds(TplRun *r, const TplValue part[3], int64_t n, Slice *s) {
    for (int i = 0; i < 3; i++)
        if (part[i].type != TPL_NONE && part[i].type != TPL_INT && part[i].type != TPL_BOOL)
            return part[i].type == TPL_UNDEFINED
                       ? rp_tpl_undefined(r, &part[i])
                       : rp_tpl_fail(r, "a slice needs integers, not '%s'", rp_tpl_type_name(&part[i]));
    const int64_t i0 = part[0].type == TPL_BOOL ? part[0].b : part[0].i,
                  i1 = part[1].type == TPL_BOOL ? part[1].b : part[1].i;
    s->step          = part[2].type == TPL_NONE ? 1 : part[2].type == TPL_BOOL ? part[2].b : part[2].i;
    if (s->step == 0) return rp_tpl_fail(r, "the step of a slice is zero");
    if (s->step < -n - 1) s->step = -n - 1;
    if (s->step > n + 1) s->step = n + 1;
    const int64_t low = s->step < 0 ? -1 : 0, high = s->step < 0 ? n - 1 : n;
    s->first = part[0].type == TPL_NONE ? (s->step < 0 ? high : low) : clamp(i0, n, low, high);
    s->end   = part[1].type == TPL_NONE ? (s->step < 0 ? low : high) : clamp(i1, n, low, high);
    return RP_OK;
}

static RpStatus slice_text(TplRun *r, TplString s, const Slice *at, TplValue *out) {
    if (at->step == 1) {
        const size_t first = rp_tpl_byte_of(s, (size_t)at->first);
        const size_t end   = at->end > at->first ? rp_tpl_byte_of(s, (size_t)at->end) : first;
        *out               = rp_tpl_string(rp_tpl_cut(s, first, end));
        return RP_OK;
    }
    TplValue chars;
    TplText  t = rp_tpl_new_text(r);
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, s.n, &chars));
    for (size_t i = 0, len; i < s.n; i += len) {
        len = rp_utf8_length(s.p + i, s.n - i);
        RP_TRY(rp_tpl_list_push(r->arena, chars.list, rp_tpl_string(rp_tpl_cut(s, i, i + len))));
    }
    for (int64_t i = at->first; at->step > 0 ? i < at->end : i > at->end; i += at->step)
        rp_tpl_put(&t, chars.list->items[i].s);
    return rp_tpl_end_text(r, &t, out);
}

RpStatus rp_tpl_slice(TplRun *r, const TplValue *a, const TplValue part[3], TplValue *out) {
    Slice s;
    if (a->type == TPL_UNDEFINED) return rp_tpl_undefined(r, a);
    if (a->type == TPL_STRING) {
        RP_TRY(rp_tpl_charge(r, a->s.n / 64));
        RP_TRY(slice_bounds(r, part, (int64_t)rp_tpl_characters(a->s), &s));
        return slice_text(r, a->s, &s, out);
    }
    if (a->type != TPL_LIST && a->type != TPL_TUPLE) { /* Jinja: what has no such item is undefined */
        static const char what[] = "of that slice";
        *out                     = rp_tpl_missing(a, (TplString){.p = what, .n = sizeof what - 1});
        return RP_OK;
    }
    RP_TRY(slice_bounds(r, part, (int64_t)a->list->n, &s));
    RP_TRY(rp_tpl_charge(r, a->list->n));
    RP_TRY(rp_tpl_list_new(r->arena, a->type, 0, out));
    for (int64_t i = s.first; s.step > 0 ? i < s.end : i > s.end; i += s.step)
        RP_TRY(rp_tpl_list_push(r->arena, out->list, a->list->items[i]));
    return RP_OK;
}

RpStatus rp_tpl_iterate(TplRun *r, const TplValue *v, TplList *out) {
    TplValue list;
    *out = (TplList){0};
    switch (v->type) {
    case TPL_ABSENT:
    case TPL_UNDEFINED:
        return RP_OK;
    case TPL_ITERATOR: { /* walked once: the rest is used up */
        TplList *l = v->list;
        *out       = (TplList){.items = l->items + l->next, .n = l->n - l->next, .depth = 1};
        l->next    = l->n;
        break;
    }
    case TPL_LIST:
    case TPL_TUPLE:
        *out = *v->list;
        break;
    case TPL_DICT:
        RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, v->dict->n, &list));
        for (size_t i = 0; i < v->dict->n; i++) RP_TRY(rp_tpl_list_push(r->arena, list.list, v->dict->pairs[i].key));
        *out = *list.list;
        break;
    case TPL_STRING:
        RP_TRY(rp_tpl_charge(r, v->s.n));
        RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, v->s.n, &list));
        for (size_t i = 0, len; i < v->s.n; i += len) {
            len = rp_utf8_length(v->s.p + i, v->s.n - i);
            RP_TRY(rp_tpl_list_push(r->arena, list.list, rp_tpl_string(rp_tpl_cut(v->s, i, i + len))));
        }
        *out = *list.list;
        break;
    default:
        return rp_tpl_fail(r, "'%s' object is not iterable", rp_tpl_type_name(v));
    }
    return rp_tpl_charge(r, out->n);
}

RpStatus rp_tpl_as_text(TplRun *r, const TplValue *v, TplString *out) {
    *out = v->s;
    if (v->type == TPL_STRING) return RP_OK;
    TplText  t = rp_tpl_new_text(r);
    TplValue s;
    rp_tpl_put_value(&t, v);
    RP_TRY(rp_tpl_end_text(r, &t, &s));
    *out = s.s;
    return RP_OK;
}

RpStatus rp_tpl_length(TplRun *r, const TplValue *v, int64_t *out) {
    *out = 0;
    if (v->type == TPL_UNDEFINED) return RP_OK;
    if (v->type == TPL_STRING) {
        RP_TRY(rp_tpl_charge(r, v->s.n / 64));
        *out = (int64_t)rp_tpl_characters(v->s);
    } else if (v->type == TPL_LIST || v->type == TPL_TUPLE) {
        *out = (int64_t)v->list->n;
    } else if (v->type == TPL_DICT) {
        *out = (int64_t)v->dict->n;
    } else if (v->type == TPL_LOOP) {
        *out = (int64_t)v->loop->items->n;
    } else {
        return rp_tpl_fail(r, "object of type '%s' has no length", rp_tpl_type_name(v));
    }
    return RP_OK;
}
