/* Expressions, from the loosest to the tightest operator:
 *
 *     if else   or   and   not   == != < <= > >= in   + -   ~   * / // %   **   unary + -   | is ()   . [] () */
#include "template/ast.h"
#include "template/builtin.h"

#include <string.h>

static RpStatus parse_unary(Parser *p, bool filters, TplNode **out);

static RpStatus binary(Parser *p, TplKind kind, TplOperator op, uint32_t at, TplNode *a, TplNode *b, TplNode **out) {
    RP_TRY(rp_tpl_node(p, kind, at, out));
    (*out)->op = op;
    (*out)->a  = a;
    (*out)->b  = b;
    return RP_OK;
}

typedef struct Level {
    const char *text[5];
    TplOperator op[4];
} Level;

static const Level add_level = {
    {"+",       "-"      },
    {TPL_O_ADD, TPL_O_SUB}
};
static const Level multiply = {
    {"*",       "/",       "//",            "%"      },
    {TPL_O_MUL, TPL_O_DIV, TPL_O_FLOOR_DIV, TPL_O_MOD}
};

static int level_operator(const Parser *p, const Level *level) {
    for (int i = 0; level->text[i] != NULL; i++)
        if (rp_tpl_at_operator(p, level->text[i])) return i;
    return -1;
}

/* A left-deep tree is as deep as the chain is long, so its length counts as depth. */
static RpStatus count_chain(Parser *p, int *n) {
    ++*n;
    return *n + p->depth > 4 * TPL_MAX_NESTING
               ? tpl_parse_fail(p, "more than %d operators in a chain", 4 * TPL_MAX_NESTING)
               : RP_OK;
}

static RpStatus parse_power(Parser *p, TplNode **out) {
    int n = 0;
    RP_TRY(parse_unary(p, true, out));
    while (rp_tpl_at_operator(p, "**")) {
        const uint32_t at = p->t->at;
        TplNode       *right;
        p->t++;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_unary(p, true, &right));
        RP_TRY(binary(p, TPL_N_BINARY, TPL_O_POW, at, *out, right, out));
    }
    return RP_OK;
}

static RpStatus parse_product(Parser *p, TplNode **out) {
    int n = 0;
    RP_TRY(parse_power(p, out));
    for (int i; (i = level_operator(p, &multiply)) >= 0;) {
        const uint32_t at = p->t->at;
        TplNode       *right;
        p->t++;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_power(p, &right));
        RP_TRY(binary(p, TPL_N_BINARY, multiply.op[i], at, *out, right, out));
    }
    return RP_OK;
}

static RpStatus parse_concat(Parser *p, TplNode **out) {
    TplNode *first, *next;
    RP_TRY(parse_product(p, &first));
    *out = first;
    if (!rp_tpl_at_operator(p, "~")) return RP_OK;
    RP_TRY(rp_tpl_node(p, TPL_N_CONCAT, p->t->at, out));
    RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, first));
    while (rp_tpl_skip_operator(p, "~")) {
        RP_TRY(parse_product(p, &next));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, next));
    }
    return RP_OK;
}

static RpStatus parse_sum(Parser *p, TplNode **out) {
    int n = 0;
    RP_TRY(parse_concat(p, out));
    for (int i; (i = level_operator(p, &add_level)) >= 0;) {
        const uint32_t at = p->t->at;
        TplNode       *right;
        p->t++;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_concat(p, &right));
        RP_TRY(binary(p, TPL_N_BINARY, add_level.op[i], at, *out, right, out));
    }
    return RP_OK;
}

static bool comparison(Parser *p, TplOperator *op) {
    static const struct {
        const char *text;
        TplOperator op;
    } all[] = {
        {"==", TPL_O_EQ},
        {"!=", TPL_O_NE},
        {"<",  TPL_O_LT},
        {"<=", TPL_O_LE},
        {">",  TPL_O_GT},
        {">=", TPL_O_GE}
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (rp_tpl_skip_operator(p, all[i].text)) {
            *op = all[i].op;
            return true;
        }
    *op = TPL_O_IN;
    if (rp_tpl_skip_name(p, "in")) return true;
    *op = TPL_O_NOT_IN;
    if (!rp_tpl_at_name(p, "not") || p->t[1].type != TPL_T_NAME || !rp_tpl_is(p->t[1].text, "in")) return false;
    p->t += 2;
    return true;
}

static RpStatus parse_compare(Parser *p, TplNode **out) {
    TplNode    *first, *operand;
    TplOperator op;
    RP_TRY(parse_sum(p, &first));
    *out = first;
    for (uint32_t at = p->t->at; comparison(p, &op); at = p->t->at) {
        if (*out == first) {
            RP_TRY(rp_tpl_node(p, TPL_N_COMPARE, at, out));
            (*out)->a = first;
        }
        RP_TRY(rp_tpl_node(p, TPL_N_OPERAND, at, &operand));
        operand->op = op;
        RP_TRY(parse_sum(p, &operand->a));
        RP_TRY(rp_tpl_nodes_push(p, &(*out)->list, operand));
    }
    return RP_OK;
}

static RpStatus parse_not(Parser *p, TplNode **out) {
    const uint32_t at = p->t->at;
    if (!rp_tpl_skip_name(p, "not")) return parse_compare(p, out);
    TplNode *operand;
    RP_TRY(rp_tpl_enter(p));
    RP_TRY(parse_not(p, &operand));
    p->depth--;
    return binary(p, TPL_N_NOT, TPL_O_ADD, at, operand, NULL, out);
}

static RpStatus parse_and(Parser *p, TplNode **out) {
    int n = 0;
    RP_TRY(parse_not(p, out));
    for (uint32_t at = p->t->at; rp_tpl_skip_name(p, "and"); at = p->t->at) {
        TplNode *right;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_not(p, &right));
        RP_TRY(binary(p, TPL_N_AND, TPL_O_ADD, at, *out, right, out));
    }
    return RP_OK;
}

static RpStatus parse_or(Parser *p, TplNode **out) {
    int n = 0;
    RP_TRY(parse_and(p, out));
    for (uint32_t at = p->t->at; rp_tpl_skip_name(p, "or"); at = p->t->at) {
        TplNode *right;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_and(p, &right));
        RP_TRY(binary(p, TPL_N_OR, TPL_O_ADD, at, *out, right, out));
    }
    return RP_OK;
}

RpStatus rp_tpl_parse_expression(Parser *p, bool condition, TplNode **out) {
    int n = 0;
    RP_TRY(rp_tpl_enter(p));
    RP_TRY(parse_or(p, out));
    for (uint32_t at = p->t->at; condition && rp_tpl_skip_name(p, "if"); at = p->t->at) {
        TplNode *test, *node;
        RP_TRY(count_chain(p, &n));
        RP_TRY(parse_or(p, &test));
        RP_TRY(binary(p, TPL_N_CONDITION, TPL_O_ADD, at, *out, test, &node));
        if (rp_tpl_skip_name(p, "else")) RP_TRY(rp_tpl_parse_expression(p, true, &node->c));
        *out = node;
    }
    p->depth--;
    return RP_OK;
}

static RpStatus parse_unary(Parser *p, bool filters, TplNode **out) {
    const uint32_t at       = p->t->at;
    const bool     negative = rp_tpl_at_operator(p, "-");
    if (negative || rp_tpl_at_operator(p, "+")) {
        TplNode *operand;
        p->t++;
        RP_TRY(rp_tpl_enter(p));
        RP_TRY(parse_unary(p, false, &operand));
        p->depth--;
        RP_TRY(binary(p, TPL_N_UNARY, negative ? TPL_O_NEGATE : TPL_O_PLUS, at, operand, NULL, out));
    } else {
        RP_TRY(rp_tpl_parse_primary(p, out));
    }
    RP_TRY(rp_tpl_parse_postfix(p, *out, out));
    return filters ? rp_tpl_parse_filters(p, *out, out) : RP_OK;
}

/* At the name behind "is". "x is divisibleby 3" has an argument without brackets. */
static RpStatus parse_test(Parser *p, TplNode *operand, TplNode **out) {
    const uint32_t at      = p->t->at;
    const bool     negated = rp_tpl_skip_name(p, "not");
    TplNode       *test, *argument;
    RP_TRY(rp_tpl_node(p, TPL_N_TEST, p->t->at, &test));
    test->a = operand;
    if (p->t->type != TPL_T_NAME) return rp_tpl_unexpected(p, "the name of a test");
    test->text    = p->t->text;
    test->builtin = rp_tpl_test(test->text);
    p->t++;
    const bool value = p->t->type == TPL_T_CONSTANT || rp_tpl_at_operator(p, "[") || rp_tpl_at_operator(p, "{");
    const bool name  = p->t->type == TPL_T_NAME && !rp_tpl_at_name(p, "else") && !rp_tpl_at_name(p, "or") &&
                      !rp_tpl_at_name(p, "and") && !rp_tpl_at_name(p, "is");
    if (rp_tpl_at_operator(p, "(")) {
        RP_TRY(rp_tpl_parse_arguments(p, &test->list));
    } else if (value || (name && test->builtin != NULL && test->builtin->more)) {
        RP_TRY(rp_tpl_parse_primary(p, &argument));
        RP_TRY(rp_tpl_parse_postfix(p, argument, &argument));
        RP_TRY(rp_tpl_nodes_push(p, &test->list, argument));
    }
    if (rp_tpl_at_name(p, "is")) return tpl_parse_fail(p, "tests cannot be chained with 'is'");
    *out = test;
    return negated ? binary(p, TPL_N_NOT, TPL_O_ADD, at, test, NULL, out) : RP_OK;
}

static RpStatus parse_filter(Parser *p, TplNode *operand, TplNode **out) {
    RP_TRY(rp_tpl_node(p, TPL_N_FILTER, p->t->at, out));
    (*out)->a = operand;
    if (p->t->type != TPL_T_NAME) return rp_tpl_unexpected(p, "the name of a filter");
    (*out)->text    = p->t->text;
    (*out)->builtin = rp_tpl_filter((*out)->text);
    p->t++;
    return rp_tpl_at_operator(p, "(") ? rp_tpl_parse_arguments(p, &(*out)->list) : RP_OK;
}

RpStatus rp_tpl_parse_filters(Parser *p, TplNode *first, TplNode **out) {
    int n = 0;
    if (first == NULL) { /* the chain of a block: its first name has no | */
        TplNode *text;
        RP_TRY(rp_tpl_node(p, TPL_N_BODY_TEXT, p->t->at, &text));
        RP_TRY(parse_filter(p, text, out));
    } else {
        *out = first;
    }
    for (;;) {
        RP_TRY(count_chain(p, &n));
        if (rp_tpl_skip_operator(p, "|")) {
            RP_TRY(parse_filter(p, *out, out));
        } else if (first != NULL && rp_tpl_skip_name(p, "is")) {
            RP_TRY(parse_test(p, *out, out));
        } else if (first != NULL && rp_tpl_at_operator(p, "(")) {
            RP_TRY(rp_tpl_parse_postfix(p, *out, out));
        } else {
            return RP_OK;
        }
    }
}
