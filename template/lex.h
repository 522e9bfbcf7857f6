/* lex.h - the tokens of a template, as Jinja cuts them with trim_blocks and lstrip_blocks. */
#ifndef TEMPLATE_LEX_H
#define TEMPLATE_LEX_H

#include "template/value.h"

typedef enum TplTokenType {
    TPL_T_END, /* of the template */
    TPL_T_DATA,
    TPL_T_PRINT, /* {{ */
    TPL_T_PRINT_END,
    TPL_T_BLOCK, /* {% */
    TPL_T_BLOCK_END,
    TPL_T_NAME,
    TPL_T_CONSTANT, /* a string or number, in `value` */
    TPL_T_OPERATOR,
} TplTokenType;

typedef struct TplToken {
    TplTokenType type;
    uint32_t     at; /* byte of the text where it begins */
    TplValue     value;
    TplString    text; /* of a name, operator or DATA */
} TplToken;

/* The text of a template, for the places in errors. */
typedef struct TplSource {
    const char *name;
    char       *text; /* line ends are \n */
    size_t      n;
} TplSource;

/* rp_fail with "NAME:LINE:COLUMN: " in front; lines and columns count from 1, columns in characters. */
RpStatus rp_tpl_fail_at(const TplSource *s, uint32_t at, RpStatus status, const char *fmt, ...) RP_PRINTF(4, 5);

/* *tokens ends with TPL_T_END. Memory is of the arena. RP_E_FORMAT with line and column. */
RpStatus rp_tpl_lex(TplArena *a, const TplSource *s, TplToken **tokens);

#endif
