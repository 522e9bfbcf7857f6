/* Evaluation of expressions. */
#include "template/run.h"

#include <string.h>

static RpStatus eval_name(TplRun *r, const TplNode *node, TplValue *out) {
    rp_tpl_get(r, node->text, out);
    const TplBuiltin *global = out->type == TPL_UNDEFINED ? rp_tpl_global(node->text) : NULL;
    return global != NULL ? rp_tpl_bind(r, global, &(TplValue){.type = TPL_NONE}, out) : RP_OK;
}

static RpStatus eval_list(TplRun *r, const TplNode *node, TplValue *out) {
    RP_TRY(rp_tpl_list_new(r->arena, node->kind == TPL_N_LIST ? TPL_LIST : TPL_TUPLE, node->list.n, out));
    for (size_t i = 0; i < node->list.n; i++) {
        TplValue item;
        RP_TRY(rp_tpl_eval(r, node->list.items[i], &item));
        RP_TRY(rp_tpl_list_push(r->arena, out->list, item));
    }
    return RP_OK;
}

static RpStatus eval_dict(TplRun *r, const TplNode *node, TplValue *out) {
    RP_TRY(rp_tpl_dict_new(r->arena, out));
    for (size_t i = 0; i + 1 < node->list.n; i += 2) {
        TplValue key, value;
        RP_TRY(rp_tpl_eval(r, node->list.items[i], &key));
        RP_TRY(rp_tpl_eval(r, node->list.items[i + 1], &value));
        RP_TRY(rp_tpl_dict_set(r->arena, out->dict, key, value));
    }
    return RP_OK;
}

static RpStatus eval_slice(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue a, part[3] = {{.type = TPL_NONE}, {.type = TPL_NONE}, {.type = TPL_NONE}};
    RP_TRY(rp_tpl_eval(r, node->a, &a));
    for (size_t i = 0; i < 3; i++)
        if (node->list.items[i] != NULL) RP_TRY(rp_tpl_eval(r, node->list.items[i], &part[i]));
    r->at = node->at;
    return rp_tpl_slice(r, &a, part, out);
}

static RpStatus eval_concat(TplRun *r, const TplNode *node, TplValue *out) {
    TplText t = rp_tpl_new_text(r);
    for (size_t i = 0; i < node->list.n; i++) {
        TplValue v;
        RP_TRY(rp_tpl_eval(r, node->list.items[i], &v));
        rp_tpl_put_value(&t, &v);
    }
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus eval_compare(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue left, right;
    bool     holds = true;
    RP_TRY(rp_tpl_eval(r, node->a, &left));
    for (size_t i = 0; i < node->list.n && holds; i++) {
        const TplNode *operand = node->list.items[i];
        RP_TRY(rp_tpl_eval(r, operand->a, &right));
        r->at = operand->at;
        RP_TRY(rp_tpl_compare_values(r, operand->op, &left, &right, &holds));
        left = right;
    }
    *out = rp_tpl_bool(holds);
    return RP_OK;
}

static RpStatus eval_binary(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue a, b;
    RP_TRY(rp_tpl_eval(r, node->a, &a));
    if (node->kind == TPL_N_AND || node->kind == TPL_N_OR) {
        *out = a;
        return rp_tpl_truth(&a) == (node->kind == TPL_N_OR) ? RP_OK : rp_tpl_eval(r, node->b, out);
    }
    RP_TRY(rp_tpl_eval(r, node->b, &b));
    r->at = node->at;
    return rp_tpl_binary(r, node->op, &a, &b, out);
}

static RpStatus eval_condition(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue test;
    RP_TRY(rp_tpl_eval(r, node->b, &test));
    if (rp_tpl_truth(&test)) return rp_tpl_eval(r, node->a, out);
    static const char what[] = "the else of an if";
    *out                     = (TplValue){
                            .type = TPL_UNDEFINED, .missing = {.name = what, .n = sizeof what - 1, .owner = NULL}
    };
    return node->c != NULL ? rp_tpl_eval(r, node->c, out) : RP_OK;
}

static RpStatus eval_unary(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue a;
    RP_TRY(rp_tpl_eval(r, node->a, &a));
    r->at = node->at;
    if (node->kind != TPL_N_NOT) return rp_tpl_unary(r, node->op, &a, out);
    *out = rp_tpl_bool(!rp_tpl_truth(&a));
    return RP_OK;
}

/* Filters and tests. */
static RpStatus eval_applied(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue self;
    RP_TRY(rp_tpl_eval(r, node->a, &self));
    r->at = node->at;
    if (node->builtin == NULL)
        return rp_tpl_fail(r, "there is no %s '%.*s'", node->kind == TPL_N_TEST ? "test" : "filter", (int)node->text.n,
                           node->text.p);
    TplFunction    f      = {node->builtin, self};
    const TplValue callee = {.type = TPL_FUNCTION, .function = &f};
    return rp_tpl_evaluate_call(r, node, &callee, NULL, out);
}

static RpStatus eval_member(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue a, key;
    RP_TRY(rp_tpl_eval(r, node->a, &a));
    if (node->kind == TPL_N_ITEM) RP_TRY(rp_tpl_eval(r, node->b, &key));
    r->at = node->at;
    return node->kind == TPL_N_ITEM ? rp_tpl_item(r, &a, &key, out) : rp_tpl_attribute(r, &a, node->text, out);
}

static RpStatus eval_call(TplRun *r, const TplNode *node, TplValue *out) {
    TplValue callee;
    RP_TRY(rp_tpl_eval(r, node->a, &callee));
    r->at = node->at;
    return rp_tpl_evaluate_call(r, node, &callee, NULL, out);
}

static RpStatus eval_kind(TplRun *r, const TplNode *node, TplValue *out) {
    switch (node->kind) {
    case TPL_N_CONSTANT:
        *out = node->value;
        return RP_OK;
    case TPL_N_NAME:
        return eval_name(r, node, out);
    case TPL_N_LIST:
    case TPL_N_TUPLE:
        return eval_list(r, node, out);
    case TPL_N_DICT:
        return eval_dict(r, node, out);
    case TPL_N_ATTRIBUTE:
    case TPL_N_ITEM:
        return eval_member(r, node, out);
    case TPL_N_SLICE:
        return eval_slice(r, node, out);
    case TPL_N_CALL:
        return eval_call(r, node, out);
    case TPL_N_FILTER:
    case TPL_N_TEST:
        return eval_applied(r, node, out);
    case TPL_N_UNARY:
    case TPL_N_NOT:
        return eval_unary(r, node, out);
    case TPL_N_COMPARE:
        return eval_compare(r, node, out);
    case TPL_N_CONCAT:
        return eval_concat(r, node, out);
    case TPL_N_CONDITION:
        return eval_condition(r, node, out);
    case TPL_N_BODY_TEXT:
        *out = rp_tpl_string(r->body_text);
        return RP_OK;
    default:
        return eval_binary(r, node, out);
    }
}

RpStatus rp_tpl_eval(TplRun *r, const TplNode *node, TplValue *out) {
    r->at = node->at;
    RP_TRY(rp_tpl_enter_run(r));
    RP_TRY(eval_kind(r, node, out));
    r->depth--;
    return RP_OK;
}
