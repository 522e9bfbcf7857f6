/* Global functions. */
#include "template/run.h"
#include "template/time.h"

#include <string.h>

static RpStatus whole(TplRun *r, const TplValue *v, int64_t *out) {
    *out = 0;
    if (v->type == TPL_UNDEFINED) return rp_tpl_undefined(r, v);
    if (v->type != TPL_INT && v->type != TPL_BOOL)
        return rp_tpl_fail(r, "range needs integers, not '%s'", rp_tpl_type_name(v));
    *out = v->type == TPL_BOOL ? v->b : v->i;
    return RP_OK;
}

enum { MAX_RANGE = 100000 }; /* of Jinja's sandbox */

static RpStatus range(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[3];
    int64_t  first = 0, end = 0, step = 1;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "first", "end", "step"));
    if (in[0].type == TPL_ABSENT) return rp_tpl_fail(r, "range needs an argument");
    RP_TRY(whole(r, &in[0], &end));
    if (in[1].type != TPL_ABSENT) {
        first = end;
        RP_TRY(whole(r, &in[1], &end));
    }
    if (in[2].type != TPL_ABSENT) RP_TRY(whole(r, &in[2], &step));
    if (step == 0) return rp_tpl_fail(r, "the step of a range is zero");
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, 0, out));
    for (int64_t i = first; step > 0 ? i < end : i > end;) {
        if (out->list->n == MAX_RANGE) return rp_tpl_fail(r, "a range has more than %d numbers", MAX_RANGE);
        RP_TRY(rp_tpl_list_push(r->arena, out->list, rp_tpl_int(i)));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return rp_tpl_charge(r, out->list->n);
}

/* namespace(a=1), dict(a=1); both take a dict too. */
static RpStatus make_dict(TplRun *r, const TplCall *call, TplValue *out) {
    RP_TRY(rp_tpl_dict_new(r->arena, out));
    if (call->n > 1) return rp_tpl_fail(r, "'%s' takes at most %d arguments, not %zu", call->name, 1, call->n);
    if (call->n == 1 && call->values[0].type != TPL_DICT)
        return rp_tpl_fail(r, "'%s' needs a dict, not '%s'", call->name, rp_tpl_type_name(&call->values[0]));
    for (size_t i = 0; call->n == 1 && i < call->values[0].dict->n; i++) {
        const TplPair *p = &call->values[0].dict->pairs[i];
        RP_TRY(rp_tpl_dict_append(r->arena, out->dict, p->key, p->value));
    }
    for (size_t i = 0; i < call->n_keywords; i++)
        RP_TRY(rp_tpl_dict_set(r->arena, out->dict, rp_tpl_string(call->keywords[i].name), call->keywords[i].value));
    if (call->name[0] == 'n') out->type = TPL_NAMESPACE;
    return RP_OK;
}

static RpStatus raise_exception(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[1];
    TplString text;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "message"));
    RP_TRY(rp_tpl_as_text(r, &in[0], &text));
    *out = rp_tpl_none();
    return rp_tpl_fail(r, "the template refuses the conversation: %.*s", (int)text.n, text.p);
}

static RpStatus strftime_now(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue in[1];
    TplText  t = rp_tpl_new_text(r);
    RP_TRY(TPL_ARGUMENTS(r, call, in, "format"));
    if (in[0].type != TPL_STRING) return rp_tpl_fail(r, "strftime_now needs a format");
    const char bad = rp_tpl_put_time(&t, in[0].s, r->now);
    if (bad != '\0') return rp_tpl_fail(r, "strftime_now: the directive '%%%c' is not supported", bad);
    return rp_tpl_end_text(r, &t, out);
}

static const TplBuiltin globals[] = {
    {"range",           range,           false},
    {"namespace",       make_dict,       false},
    {"dict",            make_dict,       false},
    {"raise_exception", raise_exception, false},
    {"strftime_now",    strftime_now,    false},
};

const TplBuiltin *rp_tpl_global(TplString name) { return TPL_FIND(globals, name); }
