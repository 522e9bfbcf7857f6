/* Statements. */
#include "template/run.h"

#include <string.h>

static void push_scope(TplRun *r, TplScope *s) {
    *s       = (TplScope){.parent = r->scope};
    r->scope = s;
}

/* Runs the body with its output in a text of its own. */
static RpStatus capture(TplRun *r, const TplNodes *body, TplValue *out) {
    TplText  t     = rp_tpl_new_text(r);
    TplText *outer = r->out;
    r->out         = &t;
    RP_TRY(rp_tpl_exec(r, body));
    r->out = outer;
    return rp_tpl_end_text(r, &t, out);
}

/* capture with variables of its own. */
static RpStatus capture_scoped(TplRun *r, const TplNodes *body, TplValue *out) {
    TplScope *scope;
    TPL_NEW(scope, r->arena, 1);
    push_scope(r, scope);
    RP_TRY(capture(r, body, out));
    r->scope = scope->parent;
    return RP_OK;
}

static RpStatus assign(TplRun *r, const TplNode *target, const TplValue *v) {
    r->at = target->at;
    if (target->kind == TPL_N_NAME) return rp_tpl_set(r, target->text, *v);
    if (target->kind == TPL_N_ATTRIBUTE) {
        TplValue of;
        rp_tpl_get(r, target->a->text, &of);
        if (of.type != TPL_NAMESPACE)
            return rp_tpl_fail(r, "'%.*s' is no namespace: its attributes cannot be set", (int)target->a->text.n,
                               target->a->text.p);
        const TplValue key = rp_tpl_string(target->text);
        return rp_tpl_dict_set(r->arena, of.dict, key, *v);
    }
    TplList items;
    RP_TRY(rp_tpl_iterate(r, v, &items));
    if (items.n != target->list.n)
        return rp_tpl_fail(r, "%zu values cannot be assigned to %zu names", items.n, target->list.n);
    for (size_t i = 0; i < items.n; i++) RP_TRY(assign(r, target->list.items[i], &items.items[i]));
    return RP_OK;
}

/* The items that the condition of the loop lets through. */
static RpStatus filter_items(TplRun *r, const TplNode *node, TplList *items) {
    TplValue kept, test;
    RP_TRY(rp_tpl_list_new(r->arena, TPL_LIST, items->n, &kept));
    for (size_t i = 0; i < items->n; i++) {
        r->scope->n = 0;
        RP_TRY(assign(r, node->a, &items->items[i]));
        RP_TRY(rp_tpl_eval(r, node->c, &test));
        if (rp_tpl_truth(&test)) RP_TRY(rp_tpl_list_push(r->arena, kept.list, items->items[i]));
    }
    *items = *kept.list;
    return RP_OK;
}

/* Each round has variables of its own. */
static RpStatus run_rounds(TplRun *r, const TplNode *node, TplLoop *loop) {
    static const char name[] = "loop";
    for (loop->index = 0; loop->index < loop->items->n && r->flow != TPL_F_BREAK; loop->index++) {
        TplScope *scope = r->scope;
        scope->n        = 0;
        RP_TRY(rp_tpl_set(r, (TplString){.p = name, .n = 4}, (TplValue){.type = TPL_LOOP, .loop = loop}));
        RP_TRY(assign(r, node->a, &loop->items->items[loop->index]));
        r->flow = TPL_F_ON;
        RP_TRY(rp_tpl_exec(r, &node->body));
    }
    r->flow = TPL_F_ON;
    return RP_OK;
}

static RpStatus exec_for(TplRun *r, const TplNode *node) {
    TplValue  over;
    TplList  *items;
    TplLoop  *loop;
    TplScope *scope;
    TPL_NEW(items, r->arena, 1);
    TPL_NEW(loop, r->arena, 1);
    TPL_NEW(scope, r->arena, 1);
    RP_TRY(rp_tpl_eval(r, node->b, &over));
    r->at = node->b->at;
    RP_TRY(rp_tpl_iterate(r, &over, items));
    push_scope(r, scope);
    if (node->c != NULL) RP_TRY(filter_items(r, node, items));
    *loop = (TplLoop){.items = items};
    RP_TRY(run_rounds(r, node, loop));
    scope->n = 0;
    if (items->n == 0) RP_TRY(rp_tpl_exec(r, &node->list));
    r->scope = scope->parent;
    return RP_OK;
}

static RpStatus exec_if(TplRun *r, const TplNode *node) {
    for (size_t i = 0; i < node->list.n; i++) {
        const TplNode *branch = node->list.items[i];
        TplValue       test   = rp_tpl_bool(true);
        if (branch->a != NULL) RP_TRY(rp_tpl_eval(r, branch->a, &test));
        if (rp_tpl_truth(&test)) return rp_tpl_exec(r, &branch->body);
    }
    return RP_OK;
}

/* Sets *v to the value of the chain of filters `chain` (NULL: none) of the text in *v. */
static RpStatus through_filters(TplRun *r, const TplNode *chain, TplValue *v) {
    const TplString outer = r->body_text;
    if (chain == NULL) return RP_OK;
    r->body_text = v->s;
    RP_TRY(rp_tpl_eval(r, chain, v));
    r->body_text = outer;
    return RP_OK;
}

static RpStatus exec_set_text(TplRun *r, const TplNode *node) {
    TplValue v;
    RP_TRY(capture_scoped(r, &node->body, &v));
    RP_TRY(through_filters(r, node->b, &v));
    return assign(r, node->a, &v);
}

static RpStatus exec_filtered(TplRun *r, const TplNode *node) {
    TplValue v;
    RP_TRY(capture_scoped(r, &node->body, &v));
    RP_TRY(through_filters(r, node->b, &v));
    rp_tpl_put_value(r->out, &v);
    return RP_OK;
}

static RpStatus exec_call_block(TplRun *r, const TplNode *node) {
    TplValue callee, v;
    RP_TRY(rp_tpl_eval(r, node->a->a, &callee));
    r->at = node->a->at;
    RP_TRY(rp_tpl_evaluate_call(r, node->a, &callee, node, &v));
    rp_tpl_put_value(r->out, &v);
    return RP_OK;
}

static RpStatus exec_macro(TplRun *r, const TplNode *node) {
    TplMacro *m;
    TPL_NEW(m, r->arena, 1);
    *m = (TplMacro){.node = node, .scope = r->scope, .name = node->text};
    return rp_tpl_set(r, node->text, (TplValue){.type = TPL_MACRO, .macro = m});
}

/* The values of a with are of the scope around it. */
static RpStatus exec_with(TplRun *r, const TplNode *node) {
    TplScope *scope, *outer = r->scope;
    TPL_NEW(scope, r->arena, 1);
    scope->parent = outer;
    for (size_t i = 0; i < node->list.n; i++) {
        TplValue v;
        RP_TRY(rp_tpl_eval(r, node->list.items[i]->b, &v));
        r->scope = scope;
        RP_TRY(assign(r, node->list.items[i]->a, &v));
        r->scope = outer;
    }
    r->scope = scope;
    RP_TRY(rp_tpl_exec(r, &node->body));
    r->scope = outer;
    return RP_OK;
}

static RpStatus exec_scope(TplRun *r, const TplNode *node) {
    TplScope *scope;
    TPL_NEW(scope, r->arena, 1);
    push_scope(r, scope);
    RP_TRY(rp_tpl_exec(r, &node->body));
    r->scope = scope->parent;
    return RP_OK;
}

static RpStatus exec_set(TplRun *r, const TplNode *node) {
    TplValue v;
    RP_TRY(rp_tpl_eval(r, node->b, &v));
    return assign(r, node->a, &v);
}

static RpStatus exec_print(TplRun *r, const TplNode *node) {
    TplValue v;
    RP_TRY(rp_tpl_eval(r, node->a, &v));
    rp_tpl_put_value(r->out, &v);
    return RP_OK;
}

static RpStatus exec_kind(TplRun *r, const TplNode *node) {
    switch (node->kind) {
    case TPL_N_DATA:
        rp_tpl_put(r->out, node->value.s);
        return RP_OK;
    case TPL_N_PRINT:
        return exec_print(r, node);
    case TPL_N_IF:
        return exec_if(r, node);
    case TPL_N_FOR:
        return exec_for(r, node);
    case TPL_N_SET:
        return exec_set(r, node);
    case TPL_N_SET_TEXT:
        return exec_set_text(r, node);
    case TPL_N_FILTERED:
        return exec_filtered(r, node);
    case TPL_N_MACRO:
        return exec_macro(r, node);
    case TPL_N_CALL_BLOCK:
        return exec_call_block(r, node);
    case TPL_N_WITH:
        return exec_with(r, node);
    case TPL_N_SCOPE:
        return exec_scope(r, node);
    default:
        r->flow = node->kind == TPL_N_BREAK ? TPL_F_BREAK : TPL_F_CONTINUE;
        return RP_OK;
    }
}

RpStatus rp_tpl_exec(TplRun *r, const TplNodes *body) {
    for (size_t i = 0; i < body->n && r->flow == TPL_F_ON; i++) {
        r->at = body->items[i]->at;
        RP_TRY(rp_tpl_enter_run(r));
        RP_TRY(exec_kind(r, body->items[i]));
        r->depth--;
        if (r->out->too_long || r->out->failed) { /* here is the place for the error */
            TplValue ignored;
            r->at = body->items[i]->at;
            RP_TRY(rp_tpl_end_text(r, r->out, &ignored));
        }
    }
    return RP_OK;
}
