/* Methods of strings, lists, dicts and loops. */
#include "template/lines.h"
#include "template/run.h"

#include "base/text/utf8.h"

#include <string.h>

static RpStatus need_text(TplRun *r, const TplCall *call, const TplValue *v, TplString *out) {
    *out = v->s;
    if (v->type == TPL_UNDEFINED) return rp_tpl_undefined(r, v);
    return v->type == TPL_STRING ? RP_OK
                                 : rp_tpl_fail(r, "'%s' needs a string, not '%s'", call->name, rp_tpl_type_name(v));
}

/* strip, lstrip, rstrip */
static RpStatus strip(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[1];
    TplString chars;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "chars"));
    const bool given = in[0].type != TPL_ABSENT && in[0].type != TPL_NONE;
    if (given) RP_TRY(need_text(r, call, &in[0], &chars));
    const bool left = call->name[0] != 'r', right = call->name[0] != 'l';
    *out = rp_tpl_string(rp_tpl_strip(call->self.s, given ? &chars : NULL, left, right));
    return rp_tpl_charge(r, call->self.s.n / 64);
}

static RpStatus change_case(TplRun *r, const TplCall *call, TplValue *out) {
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    return rp_tpl_case(r, call->self.s, call->name[0], out);
}

/* startswith, endswith: of one text, or one of a tuple. */
static RpStatus has_end(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[1];
    const TplString s     = call->self.s;
    bool            found = false;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "text"));
    const size_t n = in[0].type == TPL_TUPLE ? in[0].list->n : 1;
    for (size_t i = 0; i < n; i++) {
        TplString end;
        RP_TRY(need_text(r, call, in[0].type == TPL_TUPLE ? &in[0].list->items[i] : &in[0], &end));
        if (end.n > s.n) continue;
        found = found || memcmp(call->name[0] == 's' ? s.p : s.p + s.n - end.n, end.p, end.n) == 0;
    }
    *out = rp_tpl_bool(found);
    return RP_OK;
}

static RpStatus remove_end(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[1];
    TplString       end;
    const TplString s     = call->self.s;
    const bool      first = call->name[6] == 'p';
    RP_TRY(TPL_ARGUMENTS(r, call, in, "text"));
    RP_TRY(need_text(r, call, &in[0], &end));
    const bool has = end.n <= s.n && memcmp(first ? s.p : s.p + s.n - end.n, end.p, end.n) == 0;
    *out           = rp_tpl_string(rp_tpl_cut(s, has && first ? end.n : 0, has && !first ? s.n - end.n : s.n));
    return RP_OK;
}

static RpStatus replace(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[3];
    TplString old, new;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "old", "new", "count"));
    RP_TRY(need_text(r, call, &in[0], &old));
    RP_TRY(need_text(r, call, &in[1], &new));
    return rp_tpl_replace(r, call->self.s, old, new, in[2].type == TPL_INT ? in[2].i : -1, out);
}

static RpStatus push_part(TplRun *r, TplValue *list, TplString s, size_t first, size_t end) {
    return rp_tpl_list_push(r->arena, list->list, rp_tpl_string(rp_tpl_cut(s, first, end)));
}

/* Parts between white space. After `most` of them the rest is one part, with the white space at its end. */
static RpStatus split_space(TplRun *r, TplString s, int64_t most, TplValue *out) {
    for (size_t at = 0, len, end;; at = end) {
        while (at < s.n && rp_tpl_is_space(s, at, &len)) at += len;
        if (at == s.n) return RP_OK;
        end = at;
        while (end < s.n && (most == 0 || !rp_tpl_is_space(s, end, &len))) end += most == 0 ? s.n - end : len;
        RP_TRY(push_part(r, out, s, at, end));
        most--;
    }
}

static RpStatus split(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[2];
    TplString       by;
    const TplString s = call->self.s;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "sep", "maxsplit"));
    int64_t most = in[1].type == TPL_INT && in[1].i >= 0 ? in[1].i : INT64_MAX;
    RP_TRY(rp_tpl_charge(r, s.n / 32));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, 0, out));
    if (in[0].type == TPL_ABSENT || in[0].type == TPL_NONE) return split_space(r, s, most, out);
    RP_TRY(need_text(r, call, &in[0], &by));
    if (by.n == 0) return rp_tpl_fail(r, "'%s' needs a separator that is not empty", call->name);
    size_t at = 0;
    for (; most > 0; most--) {
        const char *found = memmem(s.p + at, s.n - at, by.p, by.n);
        if (found == NULL) break;
        RP_TRY(push_part(r, out, s, at, (size_t)(found - s.p)));
        at = (size_t)(found - s.p) + by.n;
    }
    return push_part(r, out, s, at, s.n);
}

/* From the right: of "a.b.c" the last `maxsplit` parts, and the rest in front of them. */
static RpStatus rsplit(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[2];
    TplString       by;
    const TplString s = call->self.s;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "sep", "maxsplit"));
    RP_TRY(need_text(r, call, &in[0], &by));
    if (by.n == 0) return rp_tpl_fail(r, "'%s' needs a separator that is not empty", call->name);
    int64_t  most = in[1].type == TPL_INT && in[1].i >= 0 ? in[1].i : INT64_MAX;
    size_t   end  = s.n;
    TplValue parts;
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, 0, &parts));
    for (size_t i = s.n; i >= by.n && most > 0; i--) {
        if (i > end || memcmp(s.p + i - by.n, by.p, by.n) != 0) continue;
        RP_TRY(push_part(r, &parts, s, i, end));
        end = i - by.n;
        most--;
    }
    RP_TRY(push_part(r, &parts, s, 0, end));
    const TplValue step[3] = {
        {.type = TPL_NONE},
        {               .type = TPL_NONE               },
        { .type = TPL_INT,                .i = -1}
    };
    return rp_tpl_slice(r, &parts, step, out);
}

static RpStatus splitlines(TplRun *r, const TplCall *call, TplValue *out) {
    TplString line;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, 0, out));
    for (size_t at = 0; at < call->self.s.n;) {
        (void)rp_tpl_next_line(call->self.s, &at, &line);
        RP_TRY(rp_tpl_list_push(r->arena, out->list, rp_tpl_string(line)));
    }
    return RP_OK;
}

/* find, rfind, index: the character where a text begins. */
static RpStatus find(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[1];
    TplString       what;
    const TplString s    = call->self.s;
    const bool      last = call->name[0] == 'r';
    RP_TRY(TPL_ARGUMENTS(r, call, in, "text"));
    RP_TRY(need_text(r, call, &in[0], &what));
    RP_TRY(rp_tpl_charge(r, s.n / 16));
    *out = rp_tpl_int(-1);
    if (what.n <= s.n)
        for (size_t k = 0; k <= s.n - what.n; k++) {
            const size_t i = last ? s.n - what.n - k : k;
            if (memcmp(s.p + i, what.p, what.n) != 0) continue;
            *out = rp_tpl_int((int64_t)rp_tpl_characters(rp_tpl_cut(s, 0, i)));
            return RP_OK;
        }
    return call->name[0] == 'i' ? rp_tpl_fail(r, "'index' finds no such text") : RP_OK;
}

static RpStatus count(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue        in[1];
    TplString       what;
    const TplString s = call->self.s;
    int64_t         n = 0;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "value"));
    if (call->self.type == TPL_STRING) {
        RP_TRY(need_text(r, call, &in[0], &what));
        if (what.n == 0) n = (int64_t)rp_tpl_characters(s) + 1;
        for (size_t i = 0; what.n > 0 && i + what.n <= s.n; i++) {
            if (memcmp(s.p + i, what.p, what.n) != 0) continue;
            n++;
            i += what.n - 1;
        }
    }
    for (size_t i = 0; call->self.type != TPL_STRING && i < call->self.list->n; i++)
        n += rp_tpl_equal(&call->self.list->items[i], &in[0]);
    *out = rp_tpl_int(n);
    return RP_OK;
}

static RpStatus join(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[1];
    TplList  items;
    TplText  t = rp_tpl_new_text(r);
    RP_TRY(TPL_ARGUMENTS(r, call, in, "items"));
    RP_TRY(rp_tpl_iterate(r, &in[0], &items));
    for (size_t i = 0; i < items.n; i++) {
        TplString s;
        RP_TRY(need_text(r, call, &items.items[i], &s));
        if (i > 0) rp_tpl_put(&t, call->self.s);
        rp_tpl_put(&t, s);
    }
    return rp_tpl_end_text(r, &t, out);
}

/* isdigit, isalpha (of ASCII), isspace */
static RpStatus is_kind(TplRun *r, const TplCall *call, TplValue *out) {
    const TplString s   = call->self.s;
    bool            all = s.n > 0;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    for (size_t i = 0, len; i < s.n && all; i += len) {
        const char c     = s.p[i];
        const bool space = rp_tpl_is_space(s, i, &len), digit = c >= '0' && c <= '9';
        all = call->name[2] == 'd'   ? digit
              : call->name[2] == 's' ? space
                                     : ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || len > 1;
    }
    *out = rp_tpl_bool(all);
    return RP_OK;
}

/* The value of a field {}, {0} or {name} of str.format. */
static RpStatus field(TplRun *r, const TplCall *call, TplString name, size_t *next, TplValue *out) {
    size_t i = 0;
    if (name.n == 0) i = (*next)++;
    const bool index = name.n == 0 || (name.p[0] >= '0' && name.p[0] <= '9');
    for (size_t k = 0; index && k < name.n && i < 1000; k++) {
        if (name.p[k] < '0' || name.p[k] > '9')
            return rp_tpl_fail(r, "the field {%.*s} of format is not supported", (int)name.n, name.p);
        i = 10 * i + (size_t)(name.p[k] - '0');
    }
    if (index && i >= call->n) return rp_tpl_fail(r, "there are too few values for a format");
    for (size_t k = 0; !index && k < call->n_keywords; k++)
        if (rp_tpl_same_text(call->keywords[k].name, name)) {
            *out = call->keywords[k].value;
            return RP_OK;
        }
    if (!index) return rp_tpl_fail(r, "the field {%.*s} of format is not supported", (int)name.n, name.p);
    *out = call->values[i];
    return RP_OK;
}

static RpStatus format(TplRun *r, const TplCall *call, TplValue *out) {
    const TplString s    = call->self.s;
    TplText         t    = rp_tpl_new_text(r);
    size_t          next = 0;
    for (size_t i = 0; i < s.n; i++) {
        const bool brace = s.p[i] == '{' || s.p[i] == '}';
        if (!brace || (i + 1 < s.n && s.p[i + 1] == s.p[i])) {
            rp_tpl_put(&t, rp_tpl_cut(s, i, i + 1));
            i += brace;
            continue;
        }
        const char *end = s.p[i] == '{' ? memchr(s.p + i, '}', s.n - i) : NULL;
        if (end == NULL) return rp_tpl_fail(r, "a bracket of a format has no other");
        TplValue v;
        RP_TRY(field(r, call, rp_tpl_cut(s, i + 1, (size_t)(end - s.p)), &next, &v));
        rp_tpl_put_value(&t, &v);
        i = (size_t)(end - s.p);
    }
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus index_of(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[1];
    RP_TRY(TPL_ARGUMENTS(r, call, in, "value"));
    for (size_t i = 0; i < call->self.list->n; i++)
        if (rp_tpl_equal(&call->self.list->items[i], &in[0])) {
            *out = rp_tpl_int((int64_t)i);
            return RP_OK;
        }
    return rp_tpl_fail(r, "'index' finds no such value");
}

static RpStatus copy(TplRun *r, const TplCall *call, TplValue *out) {
    *out = call->self; /* values do not change */
    return rp_tpl_arguments(r, call, NULL, 0, NULL);
}

static RpStatus get(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[2];
    RP_TRY(TPL_ARGUMENTS(r, call, in, "key", "default"));
    const TplValue *found = rp_tpl_dict_get(call->self.dict, &in[0]);
    *out                  = found != NULL ? *found : in[1].type != TPL_ABSENT ? in[1] : rp_tpl_none();
    return rp_tpl_charge(r, call->self.dict->n / 8);
}

/* keys, values, items */
static RpStatus members(TplRun *r, const TplCall *call, TplValue *out) {
    const TplDict *d = call->self.dict;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, d->n, out));
    for (size_t i = 0; i < d->n; i++) {
        TplValue v = call->name[0] == 'k' ? d->pairs[i].key : d->pairs[i].value;
        if (call->name[0] == 'i') {
            RP_TRY(rp_tpl_list_new(r->arena, TPL_TUPLE, 2, &v));
            RP_TRY(rp_tpl_list_push(r->arena, v.list, d->pairs[i].key));
            RP_TRY(rp_tpl_list_push(r->arena, v.list, d->pairs[i].value));
        }
        RP_TRY(rp_tpl_list_push(r->arena, out->list, v));
    }
    return rp_tpl_charge(r, d->n);
}

static RpStatus cycle(TplRun *r, const TplCall *call, TplValue *out) {
    if (call->n == 0) return rp_tpl_fail(r, "loop.cycle needs a value");
    *out = call->values[call->self.loop->index % call->n];
    return RP_OK;
}

static RpStatus changed(TplRun *r, const TplCall *call, TplValue *out) {
    TplLoop *l = call->self.loop;
    TplValue now;
    RP_TRY(rp_tpl_list_new(r->arena, TPL_TUPLE, call->n, &now));
    for (size_t i = 0; i < call->n; i++) RP_TRY(rp_tpl_list_push(r->arena, now.list, call->values[i]));
    *out           = rp_tpl_bool(!l->has_changed || !rp_tpl_equal(&l->changed, &now));
    l->has_changed = true;
    l->changed     = now;
    return RP_OK;
}

static const TplBuiltin of_strings[] = {
    {"strip",        strip,       false},
    {"lstrip",       strip,       false},
    {"rstrip",       strip,       false},
    {"split",        split,       false},
    {"rsplit",       rsplit,      false},
    {"splitlines",   splitlines,  false},
    {"startswith",   has_end,     false},
    {"endswith",     has_end,     false},
    {"removeprefix", remove_end,  false},
    {"removesuffix", remove_end,  false},
    {"replace",      replace,     false},
    {"upper",        change_case, false},
    {"lower",        change_case, false},
    {"title",        change_case, false},
    {"capitalize",   change_case, false},
    {"find",         find,        false},
    {"rfind",        find,        false},
    {"index",        find,        false},
    {"count",        count,       false},
    {"join",         join,        false},
    {"format",       format,      false},
    {"isdigit",      is_kind,     false},
    {"isalpha",      is_kind,     false},
    {"isspace",      is_kind,     false},
};
static const TplBuiltin of_lists[] = {
    {"index", index_of, false},
    {"count", count,    false},
    {"copy",  copy,     false}
};
static const TplBuiltin of_dicts[] = {
    {"get",    get,     false},
    {"keys",   members, false},
    {"values", members, false},
    {"items",  members, false},
    {"copy",   copy,    false}
};
static const TplBuiltin of_loops[] = {
    {"cycle",   cycle,   false},
    {"changed", changed, false}
};

const TplBuiltin *rp_tpl_method(const TplValue *of, TplString name) {
    switch (of->type) {
    case TPL_STRING:
        return TPL_FIND(of_strings, name);
    case TPL_LIST:
    case TPL_TUPLE:
        return TPL_FIND(of_lists, name);
    case TPL_DICT:
        return TPL_FIND(of_dicts, name);
    case TPL_LOOP:
        return TPL_FIND(of_loops, name);
    default:
        return NULL;
    }
}
