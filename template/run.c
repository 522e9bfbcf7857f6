/* Limits, texts and variables, which all parts of a rendering use (run.h). */
#include "template/run.h"

#include <string.h>

RpStatus rp_tpl_charge(TplRun *r, size_t steps) {
    r->steps_left -= steps < INT32_MAX ? (int64_t)steps : INT32_MAX;
    return r->steps_left < 0 ? rp_tpl_fail_at(r->source, r->at, RP_E_UNSUPPORTED,
                                              "the template takes more than %lld steps", (long long)r->steps)
                             : RP_OK;
}

RpStatus rp_tpl_enter_run(TplRun *r) {
    if (++r->depth > TPL_MAX_DEPTH)
        return rp_tpl_fail_at(r->source, r->at, RP_E_UNSUPPORTED, "the template calls itself more than %d deep",
                              TPL_MAX_DEPTH);
    return rp_tpl_charge(r, 1);
}

TplText rp_tpl_new_text(TplRun *r) { return (TplText){.arena = r->arena, .limit = r->max_text}; }

RpStatus rp_tpl_end_text(TplRun *r, TplText *t, TplValue *out) {
    TplString s;
    RP_TRY(rp_tpl_charge(r, t->n / 32));
    if (t->too_long)
        return rp_tpl_fail_at(r->source, r->at, RP_E_UNSUPPORTED, "the template makes a text of more than %zu bytes",
                              t->limit);
    RP_TRY(rp_tpl_text_end(t, &s));
    *out = rp_tpl_string(s);
    return RP_OK;
}

RpStatus rp_tpl_set(TplRun *r, TplString name, TplValue v) {
    TplScope *s = r->scope;
    for (size_t i = 0; i < s->n; i++)
        if (rp_tpl_same_text(s->variables[i].name, name)) {
            s->variables[i].value = v;
            return RP_OK;
        }
    if (s->n == s->room) {
        const size_t room = 2 * s->room + 8;
        TplVariable *grown;
        TPL_NEW(grown, r->arena, room);
        if (s->n > 0) memcpy(grown, s->variables, s->n * sizeof *grown);
        s->variables = grown;
        s->room      = room;
    }
    s->variables[s->n++] = (TplVariable){name, v};
    return RP_OK;
}

/* Scopes from the inside out, then the variables of the caller. */
void rp_tpl_get(TplRun *r, TplString name, TplValue *out) {
    for (const TplScope *s = r->scope; s != NULL; s = s->parent)
        for (size_t i = 0; i < s->n; i++)
            if (rp_tpl_same_text(s->variables[i].name, name)) {
                *out = s->variables[i].value;
                return;
            }
    const TplValue *found = rp_tpl_dict_text(r->variables, name);
    *out                  = found != NULL ? *found
                                          : (TplValue){
                                                .type = TPL_UNDEFINED, .missing = {.name = name.p, .n = name.n, .owner = NULL}
    };
}
