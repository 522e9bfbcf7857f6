/* Statements: what stands between {% and %}. */
#include "template/ast.h"

#include <string.h>

static RpStatus parse_body(Parser *p, const char *const *ends, TplNodes *out);

static RpStatus block_end(Parser *p) {
    if (p->t->type != TPL_T_BLOCK_END) return rp_tpl_unexpected(p, "'%}'");
    p->t++;
    return RP_OK;
}

/* The body up to {% END ... %}, of which the word is skipped. */
static RpStatus body_until(Parser *p, const char *end, TplNodes *out) {
    RP_TRY(parse_body(p, (const char *const[]){end, NULL}, out));
    p->t++;
    return block_end(p);
}

static RpStatus parse_if(Parser *p, TplNode *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    bool                     last   = false;
    for (;;) {
        TplNode *branch;
        RP_TRY(rp_tpl_node(p, TPL_N_BRANCH, p->t->at, &branch));
        if (!last) RP_TRY(rp_tpl_parse_tuple(p, true, &branch->a));
        RP_TRY(block_end(p));
        RP_TRY(parse_body(p, last ? ends + 2 : ends, &branch->body));
        RP_TRY(rp_tpl_nodes_push(p, &node->list, branch));
        if (rp_tpl_skip_name(p, "endif")) return block_end(p);
        last = rp_tpl_at_name(p, "else");
        p->t++;
    }
}

static RpStatus parse_for(Parser *p, TplNode *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    RP_TRY(rp_tpl_parse_target(p, &node->a));
    if (!rp_tpl_skip_name(p, "in")) return rp_tpl_unexpected(p, "'in'");
    RP_TRY(rp_tpl_parse_tuple(p, false, &node->b));
    if (rp_tpl_skip_name(p, "if")) RP_TRY(rp_tpl_parse_expression(p, true, &node->c));
    if (rp_tpl_at_name(p, "recursive")) return tpl_parse_fail(p, "recursive loops are not supported");
    RP_TRY(block_end(p));
    p->loops++;
    RP_TRY(parse_body(p, ends, &node->body));
    p->loops--;
    if (rp_tpl_skip_name(p, "else")) {
        RP_TRY(block_end(p));
        RP_TRY(parse_body(p, ends + 1, &node->list));
    }
    p->t++;
    return block_end(p);
}

static RpStatus parse_set(Parser *p, TplNode *node) {
    RP_TRY(rp_tpl_parse_target(p, &node->a));
    if (rp_tpl_skip_operator(p, "=")) {
        RP_TRY(rp_tpl_parse_tuple(p, true, &node->b));
        return block_end(p);
    }
    node->kind = TPL_N_SET_TEXT;
    if (rp_tpl_skip_operator(p, "|")) RP_TRY(rp_tpl_parse_filters(p, NULL, &node->b));
    RP_TRY(block_end(p));
    return body_until(p, "endset", &node->body);
}

/* (a, b=1) */
static RpStatus parse_parameters(Parser *p, TplNodes *out) {
    RP_TRY(rp_tpl_expect_operator(p, "("));
    for (bool first = true; !rp_tpl_skip_operator(p, ")"); first = false) {
        TplNode *name;
        if (!first) RP_TRY(rp_tpl_expect_operator(p, ","));
        if (!first && rp_tpl_skip_operator(p, ")")) break;
        RP_TRY(rp_tpl_node(p, TPL_N_NAME, p->t->at, &name));
        RP_TRY(rp_tpl_expect_word(p, &name->text));
        if (rp_tpl_skip_operator(p, "="))
            RP_TRY(rp_tpl_parse_expression(p, true, &name->a));
        else if (out->n > 0 && out->items[out->n - 1]->a != NULL)
            return tpl_parse_fail(p, "a parameter without a default follows one that has one");
        RP_TRY(rp_tpl_nodes_push(p, out, name));
    }
    return RP_OK;
}

static RpStatus parse_macro(Parser *p, TplNode *node) {
    const int loops = p->loops;
    RP_TRY(rp_tpl_expect_word(p, &node->text));
    RP_TRY(parse_parameters(p, &node->list));
    RP_TRY(block_end(p));
    p->loops = 0; /* a break in it ends no loop around it */
    RP_TRY(body_until(p, "endmacro", &node->body));
    p->loops = loops;
    return RP_OK;
}

static RpStatus parse_call(Parser *p, TplNode *node) {
    const int loops = p->loops;
    if (rp_tpl_at_operator(p, "(")) RP_TRY(parse_parameters(p, &node->list));
    RP_TRY(rp_tpl_parse_expression(p, true, &node->a));
    if (node->a->kind != TPL_N_CALL) return tpl_parse_fail(p, "a call block needs a call");
    RP_TRY(block_end(p));
    p->loops = 0;
    RP_TRY(body_until(p, "endcall", &node->body));
    p->loops = loops;
    return RP_OK;
}

static RpStatus parse_with(Parser *p, TplNode *node) {
    while (p->t->type != TPL_T_BLOCK_END) {
        TplNode *set;
        if (node->list.n > 0) RP_TRY(rp_tpl_expect_operator(p, ","));
        RP_TRY(rp_tpl_node(p, TPL_N_SET, p->t->at, &set));
        RP_TRY(rp_tpl_node(p, TPL_N_NAME, p->t->at, &set->a));
        RP_TRY(rp_tpl_expect_word(p, &set->a->text));
        RP_TRY(rp_tpl_expect_operator(p, "="));
        RP_TRY(rp_tpl_parse_expression(p, true, &set->b));
        RP_TRY(rp_tpl_nodes_push(p, &node->list, set));
    }
    RP_TRY(block_end(p));
    return body_until(p, "endwith", &node->body);
}

static RpStatus parse_filter_block(Parser *p, TplNode *node) {
    RP_TRY(rp_tpl_parse_filters(p, NULL, &node->b));
    RP_TRY(block_end(p));
    return body_until(p, "endfilter", &node->body);
}

/* In Python the body is a macro: a break in it is none of the loop around it. */
static RpStatus parse_generation(Parser *p, TplNode *node) {
    const int loops = p->loops;
    RP_TRY(block_end(p));
    p->loops = 0;
    RP_TRY(body_until(p, "endgeneration", &node->body));
    p->loops = loops;
    return RP_OK;
}

static RpStatus parse_leave(Parser *p, TplNode *node) {
    node->kind = p->t[-1].text.p[0] == 'b' ? TPL_N_BREAK : TPL_N_CONTINUE;
    if (p->loops == 0)
        return tpl_parse_fail(p, "'%s' is outside of a loop", node->kind == TPL_N_BREAK ? "break" : "continue");
    return block_end(p);
}

/* Behind the {%. */
static RpStatus parse_statement(Parser *p, TplNode **out) {
    static const struct {
        const char *name;
        TplKind     kind;
        RpStatus (*parse)(Parser *p, TplNode *node);
    } all[] = {
        {"if",         TPL_N_IF,         parse_if          },
        {"for",        TPL_N_FOR,        parse_for         },
        {"set",        TPL_N_SET,        parse_set         },
        {"macro",      TPL_N_MACRO,      parse_macro       },
        {"call",       TPL_N_CALL_BLOCK, parse_call        },
        {"with",       TPL_N_WITH,       parse_with        },
        {"filter",     TPL_N_FILTERED,   parse_filter_block},
        {"generation", TPL_N_SCOPE,      parse_generation  },
        {"break",      TPL_N_BREAK,      parse_leave       },
        {"continue",   TPL_N_CONTINUE,   parse_leave       },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (rp_tpl_at_name(p, all[i].name)) {
            RP_TRY(rp_tpl_node(p, all[i].kind, p->t->at, out));
            p->t++;
            return all[i].parse(p, *out);
        }
    if (p->t->type != TPL_T_NAME) return rp_tpl_unexpected(p, "the name of a statement");
    return tpl_parse_fail(p, "there is no statement '%.*s'", (int)p->t->text.n, p->t->text.p);
}

static bool at_end(const Parser *p, const char *const *ends) {
    for (; *ends != NULL; ends++)
        if (p->t->type == TPL_T_BLOCK && p->t[1].type == TPL_T_NAME && rp_tpl_is(p->t[1].text, *ends)) return true;
    return false;
}

/* Statements up to one of `ends` (NULL: none), which is the current token afterwards. */
static RpStatus parse_body(Parser *p, const char *const *ends, TplNodes *out) {
    RP_TRY(rp_tpl_enter(p));
    while (!at_end(p, ends)) {
        TplNode *node;
        if (p->t->type == TPL_T_END) {
            if (*ends == NULL) break;
            const char *last = *ends;
            while (*ends != NULL) last = *ends++;
            return tpl_parse_fail(p, "'%s' is missing at the end of the template", last);
        }
        const TplTokenType type = p->t->type;
        if (type == TPL_T_BLOCK) {
            p->t++;
            RP_TRY(parse_statement(p, &node));
        } else {
            RP_TRY(rp_tpl_node(p, type == TPL_T_DATA ? TPL_N_DATA : TPL_N_PRINT, p->t->at, &node));
            node->value = p->t->value;
            p->t++;
            if (type == TPL_T_PRINT) {
                RP_TRY(rp_tpl_parse_tuple(p, true, &node->a));
                if (p->t->type != TPL_T_PRINT_END) return rp_tpl_unexpected(p, "'}}'");
                p->t++;
            }
        }
        RP_TRY(rp_tpl_nodes_push(p, out, node));
    }
    p->t += *ends != NULL; /* the {% */
    p->depth--;
    return RP_OK;
}

RpStatus rp_tpl_parse(TplArena *a, const TplSource *s, TplNodes *out) {
    TplToken *tokens;
    RP_TRY(rp_tpl_lex(a, s, &tokens));
    Parser p = {.arena = a, .source = s, .t = tokens};
    return parse_body(&p, (const char *const[]){NULL}, out);
}
