/* Builtin functions are found by name, bound to a value, and get their arguments (builtin.h, run.h). */
#include "template/run.h"

const TplBuiltin *rp_tpl_find(const TplBuiltin *table, size_t n, TplString name) {
    for (size_t i = 0; i < n; i++)
        if (rp_tpl_is(name, table[i].name)) return &table[i];
    return NULL;
}

RpStatus rp_tpl_bind(TplRun *r, const TplBuiltin *b, const TplValue *self, TplValue *out) {
    TplFunction *f;
    TPL_NEW(f, r->arena, 1);
    *f   = (TplFunction){b, *self};
    *out = (TplValue){.type = TPL_FUNCTION, .function = f};
    return RP_OK;
}

RpStatus rp_tpl_arguments(TplRun *r, const TplCall *call, const char *const *names, size_t n_names, TplValue *out) {
    if (call->n > n_names)
        return rp_tpl_fail(r, "'%s' takes at most %zu arguments, not %zu", call->name, n_names, call->n);
    for (size_t i = 0; i < n_names; i++) out[i] = i < call->n ? call->values[i] : (TplValue){.type = TPL_ABSENT};
    for (size_t k = 0; k < call->n_keywords; k++) {
        const TplString name = call->keywords[k].name;
        size_t          i    = 0;
        while (i < n_names && !rp_tpl_is(name, names[i])) i++;
        if (i == n_names) return rp_tpl_fail(r, "'%s' has no argument '%.*s'", call->name, (int)name.n, name.p);
        if (i < call->n) return rp_tpl_fail(r, "'%s' has its argument '%s' twice", call->name, names[i]);
        out[i] = call->keywords[k].value;
    }
    return RP_OK;
}
