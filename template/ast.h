/* ast.h - the tree of a template. */
#ifndef TEMPLATE_AST_H
#define TEMPLATE_AST_H

#include "template/lex.h"

typedef struct TplNode TplNode;

typedef struct TplNodes {
    TplNode **items;
    size_t    n, room;
} TplNodes;

/* X(name): the fields of TplNode that it uses. */
typedef enum TplKind {
    /* expressions */
    TPL_N_CONSTANT,  /* value */
    TPL_N_NAME,      /* text */
    TPL_N_LIST,      /* list */
    TPL_N_TUPLE,     /* list */
    TPL_N_DICT,      /* list: key, value, key, value, ... */
    TPL_N_ATTRIBUTE, /* a . text */
    TPL_N_ITEM,      /* a [ b ] */
    TPL_N_SLICE,     /* a [ list[0] : list[1] : list[2] ], elements may be NULL */
    TPL_N_CALL,      /* a ( list ) */
    TPL_N_KEYWORD,   /* text = a, an argument of a call */
    TPL_N_SPREAD,    /* *a or **a (op MUL or POW), arguments of a call */
    TPL_N_FILTER,    /* a | text ( list ) */
    TPL_N_TEST,      /* a is text ( list ) */
    TPL_N_UNARY,     /* op a */
    TPL_N_BINARY,    /* a op b */
    TPL_N_COMPARE,   /* a list[0].op list[0].a list[1].op ...: a chain */
    TPL_N_OPERAND,   /* op a, in TPL_N_COMPARE */
    TPL_N_CONCAT,    /* list: a ~ b ~ ... */
    TPL_N_AND,       /* a and b */
    TPL_N_OR,        /* a or b */
    TPL_N_NOT,       /* not a */
    TPL_N_CONDITION, /* a if b else c; c may be NULL */
    TPL_N_BODY_TEXT, /* the text of the block around a chain of filters */
    /* statements */
    TPL_N_DATA,       /* value */
    TPL_N_PRINT,      /* a */
    TPL_N_IF,         /* list of TPL_N_BRANCH */
    TPL_N_BRANCH,     /* if a: body; a == NULL: else */
    TPL_N_FOR,        /* for a in b if c: body, else list */
    TPL_N_SET,        /* a = b */
    TPL_N_SET_TEXT,   /* a = text of the body, through the filters b */
    TPL_N_FILTERED,   /* the body through the filters b */
    TPL_N_MACRO,      /* text, list: parameters, NAME with a default a; body */
    TPL_N_CALL_BLOCK, /* a: TPL_N_CALL, list: parameters of caller; body */
    TPL_N_WITH,       /* list of TPL_N_SET; body */
    TPL_N_SCOPE,      /* body, with variables of its own: {% generation %} */
    TPL_N_BREAK,
    TPL_N_CONTINUE,
} TplKind;

typedef enum TplOperator {
    TPL_O_ADD,
    TPL_O_SUB,
    TPL_O_MUL,
    TPL_O_DIV,
    TPL_O_FLOOR_DIV,
    TPL_O_MOD,
    TPL_O_POW, /* TPL_N_BINARY */
    TPL_O_NEGATE,
    TPL_O_PLUS, /* TPL_N_UNARY */
    TPL_O_EQ,
    TPL_O_NE,
    TPL_O_LT,
    TPL_O_LE,
    TPL_O_GT,
    TPL_O_GE,
    TPL_O_IN,
    TPL_O_NOT_IN, /* TPL_N_OPERAND */
} TplOperator;

struct TplNode {
    TplKind                  kind;
    TplOperator              op;
    uint32_t                 at;
    TplString                text;
    TplValue                 value;
    TplNode                 *a, *b, *c;
    TplNodes                 list, body;
    const struct TplBuiltin *builtin; /* of TPL_N_FILTER and TPL_N_TEST */
};

typedef struct Parser {
    TplArena        *arena;
    const TplSource *source;
    const TplToken  *t; /* the current token */
    int              depth, loops;
} Parser;

/* Bounds the recursion of the parser, and with it the depth of the tree. */
enum { TPL_MAX_NESTING = 150 };

#define tpl_parse_fail(p, ...) rp_tpl_fail_at((p)->source, (p)->t->at, RP_E_FORMAT, __VA_ARGS__)

RpStatus rp_tpl_node(Parser *p, TplKind kind, uint32_t at, TplNode **out);
RpStatus rp_tpl_nodes_push(Parser *p, TplNodes *nodes, TplNode *node);
RpStatus rp_tpl_enter(Parser *p); /* counts the depth up; the caller counts p->depth down */

bool     rp_tpl_at_operator(const Parser *p, const char *op);
bool     rp_tpl_at_name(const Parser *p, const char *name);
bool     rp_tpl_skip_operator(Parser *p, const char *op); /* true: it was there */
bool     rp_tpl_skip_name(Parser *p, const char *name);
RpStatus rp_tpl_expect_operator(Parser *p, const char *op);
RpStatus rp_tpl_expect_word(Parser *p, TplString *out);
RpStatus rp_tpl_unexpected(const Parser *p, const char *wanted); /* an error that names the current token */

/* An expression; without `condition` a "x if y else z" ends in front of the if. */
RpStatus rp_tpl_parse_expression(Parser *p, bool condition, TplNode **out);
/* Expressions with commas between them are a tuple, one without a comma is itself. */
RpStatus rp_tpl_parse_tuple(Parser *p, bool condition, TplNode **out);
RpStatus rp_tpl_parse_target(Parser *p, TplNode **out);                  /* what is set: a, a.b, or (a, b) */
RpStatus rp_tpl_parse_filters(Parser *p, TplNode *first, TplNode **out); /* name(...) | name ... */
RpStatus rp_tpl_parse_postfix(Parser *p, TplNode *node, TplNode **out);
RpStatus rp_tpl_parse_primary(Parser *p, TplNode **out);
RpStatus rp_tpl_parse_arguments(Parser *p, TplNodes *out); /* at the ( */

/* The whole template. Memory is of the arena. RP_E_FORMAT with line and column. */
RpStatus rp_tpl_parse(TplArena *a, const TplSource *s, TplNodes *out);

#endif
