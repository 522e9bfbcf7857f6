/* Names, constants, lists, dicts, and what follows them: attributes, items, calls. */
#include "template/ast.h"

#include <string.h>

/* True at a token that ends a tuple without brackets. */
static bool tuple_ends(const Parser *p) {
    return p->t->type == TPL_T_PRINT_END || p->t->type == TPL_T_BLOCK_END || rp_tpl_at_operator(p, ")") ||
           rp_tpl_at_operator(p, "=") || rp_tpl_at_name(p, "in") || rp_tpl_at_name(p, "recursive");
}

RpStatus rp_tpl_parse_tuple(Parser *p, bool condition, TplNode **out) {
    const uint32_t at = p->t->at;
    TplNode       *item;
    RP_TRY(rp_tpl_parse_expression(p, condition, out));
    if (!rp_tpl_at_operator(p, ",")) return RP_OK;
    item = *out;
    RP_TRY(rp_tpl_node(p, TPL_N_TUPLE, at, out));
    RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, item));
    while (rp_tpl_skip_operator(p, ",") && !tuple_ends(p)) {
        RP_TRY(rp_tpl_parse_expression(p, condition, &item));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, item));
    }
    return RP_OK;
}

/* One target, or several with commas between them, with or without brackets. */
RpStatus rp_tpl_parse_target(Parser *p, TplNode **out) {
    const uint32_t at = p->t->at;
    TplNode       *all, *one;
    bool           comma = false;
    RP_TRY(rp_tpl_enter(p));
    RP_TRY(rp_tpl_node(p, TPL_N_TUPLE, at, &all));
    do {
        if (rp_tpl_skip_operator(p, "(")) {
            RP_TRY(rp_tpl_parse_target(p, &one));
            RP_TRY(rp_tpl_expect_operator(p, ")"));
        } else {
            RP_TRY(rp_tpl_node(p, TPL_N_NAME, p->t->at, &one));
            RP_TRY(rp_tpl_expect_word(p, &one->text));
            if (rp_tpl_at_operator(p, ".")) {
                TplNode *field;
                RP_TRY(rp_tpl_node(p, TPL_N_ATTRIBUTE, p->t->at, &field));
                p->t++;
                RP_TRY(rp_tpl_expect_word(p, &field->text));
                field->a = one;
                one      = field;
            }
        }
        RP_TRY(rp_tpl_nodes_push(p, &all->list, one));
        comma = rp_tpl_skip_operator(p, ",");
    } while (comma && !tuple_ends(p));
    p->depth--;
    *out = all->list.n > 1 || comma ? all : one;
    return RP_OK;
}

static RpStatus parse_list(Parser *p, TplNode **out) {
    RP_TRY(rp_tpl_node(p, TPL_N_LIST, p->t->at, out));
    p->t++;
    while (!rp_tpl_skip_operator(p, "]")) {
        TplNode *item;
        if ((*out)->list.n > 0) RP_TRY(rp_tpl_expect_operator(p, ","));
        if (rp_tpl_skip_operator(p, "]")) break;
        RP_TRY(rp_tpl_parse_expression(p, true, &item));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, item));
    }
    return RP_OK;
}

static RpStatus parse_dict(Parser *p, TplNode **out) {
    RP_TRY(rp_tpl_node(p, TPL_N_DICT, p->t->at, out));
    p->t++;
    while (!rp_tpl_skip_operator(p, "}")) {
        TplNode *key, *value;
        if ((*out)->list.n > 0) RP_TRY(rp_tpl_expect_operator(p, ","));
        if (rp_tpl_skip_operator(p, "}")) break;
        RP_TRY(rp_tpl_parse_expression(p, true, &key));
        RP_TRY(rp_tpl_expect_operator(p, ":"));
        RP_TRY(rp_tpl_parse_expression(p, true, &value));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, key));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, value));
    }
    return RP_OK;
}

static bool word_constant(TplString name, TplValue *out) {
    if (rp_tpl_is(name, "true") || rp_tpl_is(name, "True"))
        *out = rp_tpl_bool(true);
    else if (rp_tpl_is(name, "false") || rp_tpl_is(name, "False"))
        *out = rp_tpl_bool(false);
    else if (rp_tpl_is(name, "none") || rp_tpl_is(name, "None"))
        *out = rp_tpl_none();
    else
        return false;
    return true;
}

/* "a" "b" is "ab". */
static RpStatus parse_constant(Parser *p, TplNode **out) {
    RP_TRY(rp_tpl_node(p, TPL_N_CONSTANT, p->t->at, out));
    TplValue *v = &(*out)->value;
    *v          = p->t->value;
    for (p->t++; v->type == TPL_STRING && p->t->type == TPL_T_CONSTANT && p->t->value.type == TPL_STRING; p->t++) {
        char        *joined;
        const size_t n = v->s.n + p->t->value.s.n;
        TPL_NEW(joined, p->arena, n + 1);
        memcpy(joined, v->s.p, v->s.n);
        memcpy(joined + v->s.n, p->t->value.s.p, p->t->value.s.n);
        *v = rp_tpl_text(joined, n, true);
    }
    return RP_OK;
}

RpStatus rp_tpl_parse_primary(Parser *p, TplNode **out) {
    const uint32_t at = p->t->at;
    if (p->t->type == TPL_T_CONSTANT) return parse_constant(p, out);
    if (p->t->type == TPL_T_NAME) {
        RP_TRY(rp_tpl_node(p, TPL_N_NAME, at, out));
        (*out)->text = p->t->text;
        if (word_constant(p->t->text, &(*out)->value)) (*out)->kind = TPL_N_CONSTANT;
        p->t++;
        return RP_OK;
    }
    if (rp_tpl_at_operator(p, "[")) return parse_list(p, out);
    if (rp_tpl_at_operator(p, "{")) return parse_dict(p, out);
    if (!rp_tpl_skip_operator(p, "(")) return rp_tpl_unexpected(p, "an expression");
    if (rp_tpl_skip_operator(p, ")")) return rp_tpl_node(p, TPL_N_TUPLE, at, out);
    RP_TRY(rp_tpl_parse_tuple(p, true, out));
    return rp_tpl_expect_operator(p, ")");
}

/* Behind the [. An item, or a slice first:end:step of which each part may be left out. */
static RpStatus parse_subscript(Parser *p, TplNode *of, uint32_t at, TplNode **out) {
    TplNode *parts[3] = {NULL, NULL, NULL};
    int      n        = 0;
    bool     slice    = false;
    for (;;) {
        if (rp_tpl_skip_operator(p, ":")) {
            slice = true;
            if (++n > 2) return rp_tpl_unexpected(p, "']'");
        } else if (rp_tpl_skip_operator(p, "]")) {
            break;
        } else {
            if (parts[n] != NULL) return rp_tpl_unexpected(p, "']'");
            RP_TRY(rp_tpl_parse_tuple(p, true, &parts[n]));
        }
    }
    if (!slice && parts[0] == NULL) return tpl_parse_fail(p, "an index is expected in front of ']'");
    RP_TRY(rp_tpl_node(p, slice ? TPL_N_SLICE : TPL_N_ITEM, at, out));
    (*out)->a = of;
    (*out)->b = parts[0];
    for (int i = 0; slice && i < 3; i++) RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, parts[i]));
    return RP_OK;
}

RpStatus rp_tpl_parse_arguments(Parser *p, TplNodes *out) {
    bool keywords = false;
    RP_TRY(rp_tpl_expect_operator(p, "("));
    for (bool first = true; !rp_tpl_skip_operator(p, ")"); first = false) {
        TplNode *argument;
        if (!first) RP_TRY(rp_tpl_expect_operator(p, ","));
        if (!first && rp_tpl_skip_operator(p, ")")) break;
        if (p->t->type == TPL_T_NAME && p->t[1].type == TPL_T_OPERATOR && rp_tpl_is(p->t[1].text, "=")) {
            RP_TRY(rp_tpl_node(p, TPL_N_KEYWORD, p->t->at, &argument));
            argument->text = p->t->text;
            p->t += 2;
            RP_TRY(rp_tpl_parse_expression(p, true, &argument->a));
            keywords = true;
        } else if (rp_tpl_at_operator(p, "*") || rp_tpl_at_operator(p, "**")) {
            RP_TRY(rp_tpl_node(p, TPL_N_SPREAD, p->t->at, &argument));
            argument->op = rp_tpl_at_operator(p, "*") ? TPL_O_MUL : TPL_O_POW;
            p->t++;
            RP_TRY(rp_tpl_parse_expression(p, true, &argument->a));
        } else {
            if (keywords) return rp_tpl_unexpected(p, "name=");
            RP_TRY(rp_tpl_parse_expression(p, true, &argument));
        }
        RP_TRY(rp_tpl_nodes_push(p, out, argument));
    }
    return RP_OK;
}

/* .name  .0  [index]  [a:b]  (arguments) */
RpStatus rp_tpl_parse_postfix(Parser *p, TplNode *node, TplNode **out) {
    int n = 0;
    for (*out = node;; n++) {
        const uint32_t at = p->t->at;
        if (n > TPL_MAX_NESTING) return tpl_parse_fail(p, "more than %d attributes in a chain", TPL_MAX_NESTING);
        node = *out;
        if (rp_tpl_skip_operator(p, ".")) {
            const bool index = p->t->type == TPL_T_CONSTANT && p->t->value.type == TPL_INT;
            RP_TRY(rp_tpl_node(p, index ? TPL_N_ITEM : TPL_N_ATTRIBUTE, at, out));
            (*out)->a = node;
            if (index)
                RP_TRY(parse_constant(p, &(*out)->b));
            else
                RP_TRY(rp_tpl_expect_word(p, &(*out)->text));
        } else if (rp_tpl_skip_operator(p, "[")) {
            RP_TRY(parse_subscript(p, node, at, out));
        } else if (rp_tpl_at_operator(p, "(")) {
            RP_TRY(rp_tpl_node(p, TPL_N_CALL, at, out));
            (*out)->a = node;
            RP_TRY(rp_tpl_parse_arguments(p, &(*out)->list));
        } else {
            return RP_OK;
        }
    }
}
