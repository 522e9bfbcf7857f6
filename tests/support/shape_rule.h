/* shape_rule.h - refusals of the shape rules of ops/, called directly: a sound call, then the same call with one thing
 * changed, which must be refused with the exact text.
 *
 * A source is written as "f32 64 4": type, then dimensions, innermost first. At the end may be "~": the elements of a
 * row are not adjacent; or "|": there is a gap between the rows. */
#ifndef TESTS_SHAPE_RULE_H
#define TESTS_SHAPE_RULE_H

#include "tests/support/golden.h"

#include "base/op_table.h"
#include "ops/rules.h"
#include "reprise/extend.h"

typedef struct RuleRefusal {
    const char       *text;
    RpStatus          status;
    int               source; /* that is replaced by `with`, NULL: absent; -1: `params` replace the parameters */
    const char       *with;
    const RpOpParams *params;
} RuleRefusal;

enum { RULE_REFUSALS = 24 };

typedef struct RuleCase {
    TensorOp    op;
    const char *src[RP_MAX_SRC];
    RpOpParams  params;
    RuleRefusal refusals[RULE_REFUSALS]; /* up to one without a text */
} RuleCase;

#define NONE                                                                                                           \
    {                                                                                                                  \
        .get_rows = { 0.0f }                                                                                           \
    } /* parameters that are all zero */
#define WITH(i, spec, refused, why)                                                                                    \
    { .text = why, .status = refused, .source = i, .with = spec }
#define WITH_PARAMS(refused, why, ...)                                                                                 \
    {                                                                                                                  \
        .text = why, .status = refused, .source = -1, .params = &(const RpOpParams) { __VA_ARGS__ }                    \
    }

static inline RpTensorView rule_source(const char *spec) {
    char         text[64], *rest = NULL;
    RpTensorView v               = {0};
    RpDtype      dtype           = RP_DTYPE_COUNT;
    int64_t      ne[RP_MAX_DIMS] = {1, 1, 1, 1};
    int          n               = 0;
    snprintf(text, sizeof text, "%s", spec);
    const char *word = strtok_r(text, " ", &rest);
    for (int d = 0; d < RP_DTYPE_COUNT; d++)
        if (strcmp(word, rp_dtype_name((RpDtype)d)) == 0) dtype = (RpDtype)d;
    cr_assert_neq(dtype, RP_DTYPE_COUNT, "%s", spec);
    while ((word = strtok_r(NULL, " ", &rest)) != NULL && word[0] != '~' && word[0] != '|') ne[n++] = atoll(word);
    v = rp_view_contiguous(dtype, ne, NULL);
    if (word != NULL)
        for (int i = word[0] == '~' ? 0 : 1; i < RP_MAX_DIMS; i++) v.nb[i] *= 2;
    return v;
}

static inline RpStatus rule_call(const RuleCase *c, const RuleRefusal *changed, const char **why) {
    RpTensorView   views[RP_MAX_SRC], out = {0};
    RpSourceShapes in = {0};
    for (int i = 0; i < RP_MAX_SRC; i++) {
        const char *spec = changed != NULL && changed->source == i ? changed->with : c->src[i];
        if (spec == NULL) continue;
        views[i]  = rule_source(spec);
        in.src[i] = &views[i];
    }
    const RpOpParams *params = changed != NULL && changed->source < 0 ? changed->params : &c->params;
    *why                     = "";
    return rp_op_rules(c->op)->shape(&in, params, &out, why);
}

static inline void check_rules(const RuleCase *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const RuleCase *c    = &cases[i];
        const char     *name = rp_op_info(c->op)->name, *why;
        cr_expect_eq(rule_call(c, NULL, &why), RP_OK, "%s: the sound call is refused: %s", name, why);
        for (const RuleRefusal *r = c->refusals; r->text != NULL; r++) {
            const RpStatus st = rule_call(c, r, &why);
            cr_expect_eq(st, r->status, "%s, refusal %d: %s, not: %s", name, (int)(r - c->refusals), why, r->text);
            cr_expect_str_eq(why, r->text, "%s, refusal %d", name, (int)(r - c->refusals));
        }
    }
}

#endif
