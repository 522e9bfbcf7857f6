/* Calls of functions and macros, and their arguments. */
#include "template/run.h"

#include <string.h>

static const TplKeyword *keyword(const TplCall *call, TplString name) {
    for (size_t i = 0; i < call->n_keywords; i++)
        if (rp_tpl_same_text(call->keywords[i].name, name)) return &call->keywords[i];
    return NULL;
}

/* Sets the parameters in the scope of a macro, in which defaults are evaluated. */
static RpStatus set_parameters(TplRun *r, const TplMacro *m, const TplCall *call) {
    const TplNodes *names = &m->node->list;
    if (call->n > names->n)
        return rp_tpl_fail(r, "the macro '%.*s' takes at most %zu arguments, not %zu", (int)m->name.n, m->name.p,
                           names->n, call->n);
    for (size_t k = 0; k < call->n_keywords; k++) {
        const TplString name  = call->keywords[k].name;
        bool            known = rp_tpl_is(name, "caller");
        for (size_t i = 0; i < names->n; i++) known = known || rp_tpl_same_text(names->items[i]->text, name);
        if (!known)
            return rp_tpl_fail(r, "the macro '%.*s' has no argument '%.*s'", (int)m->name.n, m->name.p, (int)name.n,
                               name.p);
    }
    for (size_t i = 0; i < names->n; i++) {
        const TplNode    *p = names->items[i];
        const TplKeyword *k = keyword(call, p->text);
        TplValue          v = {
                     .type = TPL_UNDEFINED, .missing = {.name = p->text.p, .n = p->text.n, .owner = NULL}
        };
        if (i < call->n)
            v = call->values[i];
        else if (k != NULL)
            v = k->value;
        else if (p->a != NULL)
            RP_TRY(rp_tpl_eval(r, p->a, &v));
        RP_TRY(rp_tpl_set(r, p->text, v));
    }
    static const char word[] = "caller";
    const TplString   name   = {.p = word, .n = sizeof word - 1};
    const TplKeyword *caller = keyword(call, name);
    return caller != NULL ? rp_tpl_set(r, name, caller->value) : RP_OK;
}

static RpStatus call_macro(TplRun *r, const TplMacro *m, const TplCall *call, TplValue *out) {
    TplText       t = rp_tpl_new_text(r), *outer_text = r->out;
    TplScope     *outer = r->scope, *scope;
    const TplFlow flow  = r->flow;
    TPL_NEW(scope, r->arena, 1);
    scope->parent = m->scope;
    r->scope      = scope;
    RP_TRY(set_parameters(r, m, call));
    r->out  = &t;
    r->flow = TPL_F_ON;
    RP_TRY(rp_tpl_exec(r, &m->node->body));
    r->out   = outer_text;
    r->scope = outer;
    r->flow  = flow;
    return rp_tpl_end_text(r, &t, out);
}

RpStatus rp_tpl_call(TplRun *r, const TplValue *callee, const TplCall *call, TplValue *out) {
    if (callee->type == TPL_UNDEFINED) return rp_tpl_undefined(r, callee);
    if (callee->type == TPL_MACRO) return call_macro(r, callee->macro, call, out);
    if (callee->type != TPL_FUNCTION) return rp_tpl_fail(r, "'%s' object is not callable", rp_tpl_type_name(callee));
    TplCall named = *call;
    named.name    = callee->function->builtin->name;
    named.self    = callee->function->self;
    return callee->function->builtin->code(r, &named, out);
}

/* The arguments of a call as they are collected. */
typedef struct Collected {
    TplList     values;
    TplKeyword *keywords;
    size_t      n, room;
} Collected;

static RpStatus add_keyword(TplRun *r, Collected *c, TplString name, TplValue v) {
    if (c->n == c->room) {
        const size_t room = 2 * c->room + 4;
        TplKeyword  *grown;
        TPL_NEW(grown, r->arena, room);
        if (c->n > 0) memcpy(grown, c->keywords, c->n * sizeof *grown);
        c->keywords = grown;
        c->room     = room;
    }
    c->keywords[c->n++] = (TplKeyword){name, v};
    return RP_OK;
}

/* *list and **dict */
static RpStatus spread(TplRun *r, Collected *c, TplOperator op, const TplValue *v) {
    TplList items;
    if (op == TPL_O_MUL) {
        RP_TRY(rp_tpl_iterate(r, v, &items));
        for (size_t i = 0; i < items.n; i++) RP_TRY(rp_tpl_list_push(r->arena, &c->values, items.items[i]));
        return RP_OK;
    }
    if (v->type != TPL_DICT) return rp_tpl_fail(r, "** needs a dict, not '%s'", rp_tpl_type_name(v));
    for (size_t i = 0; i < v->dict->n; i++) {
        const TplPair *p = &v->dict->pairs[i];
        if (p->key.type != TPL_STRING) return rp_tpl_fail(r, "** needs a dict of names");
        RP_TRY(add_keyword(r, c, p->key.s, p->value));
    }
    return rp_tpl_charge(r, v->dict->n);
}

static RpStatus collect(TplRun *r, const TplNodes *list, Collected *c) {
    for (size_t i = 0; i < list->n; i++) {
        const TplNode *argument = list->items[i];
        const bool     inner    = argument->kind == TPL_N_KEYWORD || argument->kind == TPL_N_SPREAD;
        TplValue       v;
        RP_TRY(rp_tpl_eval(r, inner ? argument->a : argument, &v));
        r->at = argument->at;
        if (argument->kind == TPL_N_KEYWORD)
            RP_TRY(add_keyword(r, c, argument->text, v));
        else if (argument->kind == TPL_N_SPREAD)
            RP_TRY(spread(r, c, argument->op, &v));
        else
            RP_TRY(rp_tpl_list_push(r->arena, &c->values, v));
    }
    return RP_OK;
}

/* Evaluates the arguments of `node` and calls. `caller`: the call block around it, or NULL. */
RpStatus rp_tpl_evaluate_call(TplRun *r, const TplNode *node, const TplValue *callee, const TplNode *caller,
                              TplValue *out) {
    Collected c = {0};
    RP_TRY(collect(r, &node->list, &c));
    if (caller != NULL) {
        static const char name[] = "caller";
        TplMacro         *m;
        TPL_NEW(m, r->arena, 1);
        *m = (TplMacro){
            .node = caller, .scope = r->scope, .name = {.p = name, .n = sizeof name - 1}
        };
        RP_TRY(add_keyword(r, &c, m->name, (TplValue){.type = TPL_MACRO, .macro = m}));
    }
    const TplCall call = {
        .name = "?", .values = c.values.items, .n = c.values.n, .keywords = c.keywords, .n_keywords = c.n};
    r->at = node->at;
    return rp_tpl_call(r, callee, &call, out);
}
