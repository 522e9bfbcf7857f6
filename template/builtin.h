/* builtin.h - filters, tests, methods and global functions: C functions of the same form. */
#ifndef TEMPLATE_BUILTIN_H
#define TEMPLATE_BUILTIN_H

#include "template/value.h"

struct TplRun;

typedef struct TplKeyword {
    TplString name;
    TplValue  value;
} TplKeyword;

typedef struct TplCall {
    const char       *name; /* of the function, for errors */
    TplValue          self; /* what a filter, test or method is applied to */
    const TplValue   *values;
    size_t            n;
    const TplKeyword *keywords;
    size_t            n_keywords;
} TplCall;

typedef RpStatus TplCode(struct TplRun *r, const TplCall *call, TplValue *out);

typedef struct TplBuiltin {
    const char *name;
    TplCode    *code;
    bool        more; /* of a test: it has an argument */
} TplBuiltin;

/* NULL: there is none. */
const TplBuiltin *rp_tpl_filter(TplString name);
const TplBuiltin *rp_tpl_test(TplString name);
const TplBuiltin *rp_tpl_global(TplString name);
const TplBuiltin *rp_tpl_method(const TplValue *of, TplString name);
const TplBuiltin *rp_tpl_find(const TplBuiltin *table, size_t n, TplString name);

#define TPL_FIND(table, name) rp_tpl_find((table), sizeof(table) / sizeof((table)[0]), (name))

/* Rows of the tables, one for each file. */
extern const TplBuiltin rp_tpl_text_filters[], rp_tpl_list_filters[], rp_tpl_value_filters[];
extern const size_t     rp_tpl_n_text_filters, rp_tpl_n_list_filters, rp_tpl_n_value_filters;

#endif
