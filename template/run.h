/* run.h - the state of a rendering, and what its parts share. */
#ifndef TEMPLATE_RUN_H
#define TEMPLATE_RUN_H

#include "template/ast.h"
#include "template/builtin.h"
#include "template/strings.h"
#include "template/text.h"

#include <time.h>

typedef struct TplVariable {
    TplString name;
    TplValue  value;
} TplVariable;

typedef struct TplScope {
    struct TplScope *parent;
    TplVariable     *variables;
    size_t           n, room;
} TplScope;

typedef struct TplLoop {
    const TplList *items;
    size_t         index;
    bool           has_changed; /* `changed` holds arguments of loop.changed */
    TplValue       changed;
} TplLoop;

/* A global or method with the value that it is of. */
typedef struct TplFunction {
    const TplBuiltin *builtin;
    TplValue          self;
} TplFunction;

typedef struct TplMacro {
    const TplNode *node;
    TplScope      *scope; /* where it was defined */
    TplString      name;
} TplMacro;

typedef enum TplFlow { TPL_F_ON, TPL_F_BREAK, TPL_F_CONTINUE } TplFlow;

typedef struct TplRun {
    TplArena        *arena;
    const TplSource *source;
    uint32_t         at; /* of the node being evaluated, for errors */
    int64_t          steps_left, steps;
    int              depth;
    TplScope        *scope;
    const TplDict   *variables;
    const struct tm *now;
    TplText         *out;
    size_t           max_text;
    TplFlow          flow;
    TplString        body_text; /* of the block around a chain of filters */
} TplRun;

/* Most evaluations inside of each other: the evaluator recurses. */
enum { TPL_MAX_DEPTH = 1500 };

#define rp_tpl_fail(r, ...) rp_tpl_fail_at((r)->source, (r)->at, RP_E_ARG, __VA_ARGS__)

RpStatus rp_tpl_charge(TplRun *r, size_t steps); /* RP_E_UNSUPPORTED when the steps are used up */
RpStatus rp_tpl_enter_run(TplRun *r);            /* a step, one deeper; the caller counts r->depth down */
TplText  rp_tpl_new_text(TplRun *r);
RpStatus rp_tpl_end_text(TplRun *r, TplText *t, TplValue *out);

/* Variables. */
RpStatus rp_tpl_set(TplRun *r, TplString name, TplValue v); /* in the innermost scope */
void     rp_tpl_get(TplRun *r, TplString name, TplValue *out);

/* Evaluation. */
RpStatus rp_tpl_eval(TplRun *r, const TplNode *node, TplValue *out);
RpStatus rp_tpl_exec(TplRun *r, const TplNodes *body);
RpStatus rp_tpl_call(TplRun *r, const TplValue *callee, const TplCall *call, TplValue *out);
RpStatus rp_tpl_evaluate_call(TplRun *r, const TplNode *node, const TplValue *callee, const TplNode *caller,
                              TplValue *out);
RpStatus rp_tpl_binary(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b, TplValue *out);
RpStatus rp_tpl_unary(TplRun *r, TplOperator op, const TplValue *a, TplValue *out);
RpStatus rp_tpl_compare_values(TplRun *r, TplOperator op, const TplValue *a, const TplValue *b, bool *out);
RpStatus rp_tpl_format(TplRun *r, TplString format, const TplValue *values, size_t n, TplValue *out); /* "%s" % x */

/* a.name, a[key], a[first:end:step]. */
RpStatus rp_tpl_attribute(TplRun *r, const TplValue *a, TplString name, TplValue *out);
RpStatus rp_tpl_item(TplRun *r, const TplValue *a, const TplValue *key, TplValue *out);
RpStatus rp_tpl_slice(TplRun *r, const TplValue *a, const TplValue part[3], TplValue *out);
bool     rp_tpl_loop_attribute(const TplValue *loop, TplString name, TplValue *out);
RpStatus rp_tpl_bind(TplRun *r, const TplBuiltin *b, const TplValue *self, TplValue *out);

/* Helpers of functions, filters and tests. */
RpStatus rp_tpl_iterate(TplRun *r, const TplValue *v, TplList *out);   /* the items of anything that can be walked */
RpStatus rp_tpl_as_text(TplRun *r, const TplValue *v, TplString *out); /* str(v) */
RpStatus rp_tpl_undefined(TplRun *r, const TplValue *v);               /* the error of using it */
RpStatus rp_tpl_length(TplRun *r, const TplValue *v, int64_t *out);
/* Fills out[0..n_names) from the arguments of a call in their order or by name; TPL_ABSENT where one was not passed. */
RpStatus rp_tpl_arguments(TplRun *r, const TplCall *call, const char *const *names, size_t n_names, TplValue *out);
RpStatus rp_tpl_test_value(TplRun *r, TplString test, const TplCall *call, bool *out);
RpStatus rp_tpl_sort(TplRun *r, TplValue *items, const TplValue *keys, size_t n, bool reverse); /* stable */
RpStatus rp_tpl_replace(TplRun *r, TplString s, TplString old, TplString new, int64_t most, TplValue *out);
RpStatus rp_tpl_case(TplRun *r, TplString s, int mode, TplValue *out); /* 'u', 'l', 't'itle, 'c'apitalize */

#define TPL_ARGUMENTS(r, call, out, ...)                                                                               \
    rp_tpl_arguments((r), (call), (const char *const[]){__VA_ARGS__}, sizeof(out) / sizeof((out)[0]), (out))

#endif
