/* Tests: x is defined, x is divisibleby 3, ... */
#include "template/run.h"

#include <string.h>

static RpStatus yes(TplValue *out, bool holds) {
    *out = rp_tpl_bool(holds);
    return RP_OK;
}

/* A test of the type of a value. */
#define TYPE_TEST(name, condition)                                                                                     \
    static RpStatus is_##name(TplRun *r, const TplCall *call, TplValue *out) {                                         \
        const TplValue *v = &call->self;                                                                               \
        RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));                                                              \
        return yes(out, (condition));                                                                                  \
    }

static bool walked(const TplValue *v) {
    return rp_tpl_is_sequence(v->type) || v->type == TPL_STRING || v->type == TPL_DICT || v->type == TPL_UNDEFINED ||
           v->type == TPL_LOOP;
}

TYPE_TEST(defined, v->type != TPL_UNDEFINED)
TYPE_TEST(undefined, v->type == TPL_UNDEFINED)
TYPE_TEST(none, v->type == TPL_NONE)
TYPE_TEST(boolean, v->type == TPL_BOOL)
TYPE_TEST(true, v->type == TPL_BOOL && v->b)
TYPE_TEST(false, v->type == TPL_BOOL && !v->b)
TYPE_TEST(integer, v->type == TPL_INT || v->type == TPL_BIG)
TYPE_TEST(float, v->type == TPL_FLOAT)
TYPE_TEST(number, rp_tpl_is_number(v) || v->type == TPL_BIG)
TYPE_TEST(string, v->type == TPL_STRING)
TYPE_TEST(mapping, v->type == TPL_DICT)
TYPE_TEST(iterable, walked(v))
TYPE_TEST(sequence, walked(v) && v->type != TPL_ITERATOR && v->type != TPL_LOOP)
TYPE_TEST(callable, v->type == TPL_FUNCTION || v->type == TPL_MACRO || v->type == TPL_LOOP)

/* Has letters, and none of the other case. */
static RpStatus is_case(TplRun *r, const TplCall *call, TplValue *out) {
    TplString s;
    TplValue  same;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_as_text(r, &call->self, &s));
    RP_TRY(rp_tpl_case(r, s, call->name[0], &same)); /* "upper" or "lower" */
    const bool kept = rp_tpl_same_text(same.s, s);
    RP_TRY(rp_tpl_case(r, s, call->name[0] == 'u' ? 'l' : 'u', &same));
    return yes(out, kept && !rp_tpl_same_text(same.s, s));
}

static RpStatus is_parity(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue remainder;
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    RP_TRY(rp_tpl_binary(r, TPL_O_MOD, &call->self, &(TplValue){.type = TPL_INT, .i = 2}, &remainder));
    return yes(out, rp_tpl_truth(&remainder) == (call->name[0] == 'o'));
}

static RpStatus is_divisible(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue by[1], remainder;
    RP_TRY(TPL_ARGUMENTS(r, call, by, "num"));
    RP_TRY(rp_tpl_binary(r, TPL_O_MOD, &call->self, &by[0], &remainder));
    return yes(out, !rp_tpl_truth(&remainder));
}

static RpStatus is_compared(TplRun *r, const TplCall *call, TplValue *out) {
    static const struct {
        const char *name;
        TplOperator op;
    } names[] = {
        {"==",          TPL_O_EQ},
        {"eq",          TPL_O_EQ},
        {"equalto",     TPL_O_EQ},
        {"!=",          TPL_O_NE},
        {"ne",          TPL_O_NE},
        {">",           TPL_O_GT},
        {"gt",          TPL_O_GT},
        {"greaterthan", TPL_O_GT},
        {"<",           TPL_O_LT},
        {"lt",          TPL_O_LT},
        {"lessthan",    TPL_O_LT},
        {"ge",          TPL_O_GE},
        {">=",          TPL_O_GE},
        {"le",          TPL_O_LE},
        {"<=",          TPL_O_LE},
        {"in",          TPL_O_IN}
    };
    TplValue with[1];
    bool     holds = false;
    RP_TRY(TPL_ARGUMENTS(r, call, with, "other"));
    if (with[0].type == TPL_ABSENT) return rp_tpl_fail(r, "the test '%s' needs a value", call->name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, call->name) == 0)
            RP_TRY(rp_tpl_compare_values(r, names[i].op, &call->self, &with[0], &holds));
    return yes(out, holds);
}

static RpStatus is_same(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue with[1];
    RP_TRY(TPL_ARGUMENTS(r, call, with, "other"));
    return yes(out, call->self.type == with[0].type && rp_tpl_equal(&call->self, &with[0]));
}

static const TplBuiltin tests[] = {
    {"defined",     is_defined,   false},
    {"undefined",   is_undefined, false},
    {"none",        is_none,      false},
    {"boolean",     is_boolean,   false},
    {"true",        is_true,      false},
    {"false",       is_false,     false},
    {"integer",     is_integer,   false},
    {"float",       is_float,     false},
    {"number",      is_number,    false},
    {"string",      is_string,    false},
    {"mapping",     is_mapping,   false},
    {"iterable",    is_iterable,  false},
    {"sequence",    is_sequence,  false},
    {"callable",    is_callable,  false},
    {"upper",       is_case,      false},
    {"lower",       is_case,      false},
    {"even",        is_parity,    false},
    {"odd",         is_parity,    false},
    {"divisibleby", is_divisible, true },
    {"==",          is_compared,  true },
    {"eq",          is_compared,  true },
    {"equalto",     is_compared,  true },
    {"!=",          is_compared,  true },
    {"ne",          is_compared,  true },
    {">",           is_compared,  true },
    {"gt",          is_compared,  true },
    {"greaterthan", is_compared,  true },
    {"<",           is_compared,  true },
    {"lt",          is_compared,  true },
    {"lessthan",    is_compared,  true },
    {">=",          is_compared,  true },
    {"ge",          is_compared,  true },
    {"<=",          is_compared,  true },
    {"le",          is_compared,  true },
    {"in",          is_compared,  true },
    {"sameas",      is_same,      true },
};

const TplBuiltin *rp_tpl_test(TplString name) { return TPL_FIND(tests, name); }

RpStatus rp_tpl_test_value(TplRun *r, TplString name, const TplCall *call, bool *out) {
    const TplBuiltin *test = rp_tpl_test(name);
    TplValue          v;
    if (test == NULL) return rp_tpl_fail(r, "there is no test '%.*s'", (int)name.n, name.p);
    TplCall named = *call;
    named.name    = test->name;
    RP_TRY(test->code(r, &named, &v));
    *out = rp_tpl_truth(&v);
    return RP_OK;
}
