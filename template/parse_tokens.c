/* Nodes of the tree, and the tokens that a parser looks at or skips. */
#include "template/ast.h"

#include <string.h>

RpStatus rp_tpl_node(Parser *p, TplKind kind, uint32_t at, TplNode **out) {
    TPL_NEW(*out, p->arena, 1);
    (*out)->kind = kind;
    (*out)->at   = at;
    return RP_OK;
}

RpStatus rp_tpl_nodes_push(Parser *p, TplNodes *nodes, TplNode *node) {
    if (nodes->n == nodes->room) {
        const size_t room = 2 * nodes->room + 4;
        TplNode    **items;
        TPL_NEW(items, p->arena, room);
        if (nodes->n > 0) memcpy(items, nodes->items, nodes->n * sizeof *items);
        nodes->items = items;
        nodes->room  = room;
    }
    nodes->items[nodes->n++] = node;
    return RP_OK;
}

RpStatus rp_tpl_enter(Parser *p) {
    return ++p->depth > TPL_MAX_NESTING ? tpl_parse_fail(p, "the template is nested more than %d deep", TPL_MAX_NESTING)
                                        : RP_OK;
}

bool rp_tpl_at_operator(const Parser *p, const char *op) {
    return p->t->type == TPL_T_OPERATOR && rp_tpl_is(p->t->text, op);
}

bool rp_tpl_at_name(const Parser *p, const char *name) {
    return p->t->type == TPL_T_NAME && rp_tpl_is(p->t->text, name);
}

bool rp_tpl_skip_operator(Parser *p, const char *op) {
    const bool found = rp_tpl_at_operator(p, op);
    p->t += found;
    return found;
}

bool rp_tpl_skip_name(Parser *p, const char *name) {
    const bool found = rp_tpl_at_name(p, name);
    p->t += found;
    return found;
}

RpStatus rp_tpl_unexpected(const Parser *p, const char *wanted) {
    static const char *const names[] = {
        [TPL_T_END]       = "the end of the template",
        [TPL_T_DATA]      = "text",
        [TPL_T_PRINT]     = "'{{'",
        [TPL_T_PRINT_END] = "'}}'",
        [TPL_T_BLOCK]     = "'{%'",
        [TPL_T_BLOCK_END] = "'%}'",
        [TPL_T_CONSTANT]  = "a string or number",
    };
    if (p->t->type == TPL_T_NAME || p->t->type == TPL_T_OPERATOR)
        return tpl_parse_fail(p, "%s is expected, not '%.*s'", wanted, (int)p->t->text.n, p->t->text.p);
    return tpl_parse_fail(p, "%s is expected, not %s", wanted, names[p->t->type]);
}

RpStatus rp_tpl_expect_operator(Parser *p, const char *op) {
    const char quoted[] = {'\'', op[0], op[1] != '\0' ? op[1] : '\'', op[1] != '\0' ? '\'' : '\0', '\0'};
    return rp_tpl_skip_operator(p, op) ? RP_OK : rp_tpl_unexpected(p, quoted);
}

RpStatus rp_tpl_expect_word(Parser *p, TplString *out) {
    if (p->t->type != TPL_T_NAME) return rp_tpl_unexpected(p, "a name");
    *out = p->t->text;
    p->t++;
    return RP_OK;
}
