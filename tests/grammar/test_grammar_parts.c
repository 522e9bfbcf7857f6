/* Grammars of parts: tokens that count only as tokens, groups, schemas between texts. */
#include "reprise/grammar.h"
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include <string.h>

/* clang-format off */
/* 0: ends a reply. 1: without bytes. 2: user-defined, its letters are tokens too. 8, 9: bytes that are no UTF-8. */
static const RpGgufString vocabulary[] = {
    {"",     0},
    {"",     0},
    {"<c>",  3},
    {"<",    1},
    {"c",    1},
    {">",    1},
    {"[1]",  3},
    {"1",    1},
    {"\xff", 1},
    {"\x81", 1},
    {"\x80", 1}
};
/* clang-format on */
enum { N = sizeof vocabulary / sizeof vocabulary[0] };

static RpGrammar      *g;
static RpGrammarVocab *v;
static RpMatcher      *m;

static void open_parts(const RpGrammarPart *parts, size_t n) {
    OK(rp_grammar_vocab_of(vocabulary, N, (int32_t[]){0}, 1, &v));
    OK(rp_grammar_parts(parts, n, &g));
    OK(rp_matcher_new(g, v, &m));
}

static void close_parts(void) { rp_matcher_free(m), rp_grammar_free(g), rp_grammar_vocab_free(v); }

static uint32_t mask(void) {
    uint32_t bits = 0;
    OK(rp_matcher_mask(m, &bits));
    for (int32_t i = 0; i < N; i++) { /* the mask is what rp_matcher_accept takes */
        const bool taken = rp_matcher_accept(m, i) == RP_OK;
        cr_expect_eq(taken, bits >> i & 1, CASE(i));
        if (taken) OK(rp_matcher_rollback(m, 1));
    }
    return bits;
}

/* Rules of the same name in two grammars; "word" is regular, so that each is read twice. */
Test(grammar_parts, gbnf_stands_between_other_parts) {
    static const char first[]  = "root ::= \"<\" word | \"c\" root\nword ::= [1c]+";
    static const char second[] = "root ::= word \"1\"\nword ::= \"<\" \"c\"?";
    static const char schema[] = "{\"enum\": [1]}";
    /* clang-format off */
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_TOKEN,  .token = 2                              },
        {.kind = RP_PART_GBNF,   .text = first,  .n = sizeof first - 1   },
        {.kind = RP_PART_TEXT,   .text = ">",    .n = 1                  },
        {.kind = RP_PART_SCHEMA, .text = schema, .n = sizeof schema - 1  },
        {.kind = RP_PART_GBNF,   .text = second, .n = sizeof second - 1  },
        {.kind = RP_PART_GBNF,   .text = first,  .n = sizeof first - 1   },
    };
    static const struct {
        const char *text;
        bool        whole;
    } cases[] = {
        {"<1>1<1<c",      true },
        {"cc<1c1>1<c1c<1", true },
        {"<>1<1<c",       false},
        {"<1>1<<c",       false},
        {"<1>1<1",        false},
        {"<1>1<1c1",      false},
    };
    /* clang-format on */
    open_parts(parts, sizeof parts / sizeof parts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_matcher_reset(m);
        OK(rp_matcher_accept(m, 2));
        const bool taken = rp_matcher_accept_text(m, cases[i].text, strlen(cases[i].text)) == RP_OK;
        cr_expect_eq(taken && rp_matcher_complete(m), cases[i].whole, CASE(i));
    }
    close_parts();
    const RpGrammarPart bad = {.kind = RP_PART_GBNF, .text = "root = 1", .n = 8};
    REFUSED(rp_grammar_parts(&bad, 1, &g), RP_E_FORMAT, "GBNF:1:6: ::= is expected");
}

Test(grammar_parts, tokens_count_only_as_tokens) {
    /* clang-format off */
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_TOKEN, .token = 2                },
        {.kind = RP_PART_REGEX, .text = "[^]{2}", .n = 6  },
        {.kind = RP_PART_TOKEN, .token = 1                },
        {.kind = RP_PART_TEXT,  .text = "c",      .n = 1  },
    };
    /* clang-format on */
    RpTokenList forced = {0};
    open_parts(parts, 4);
    cr_expect_eq(mask(), 1u << 2); /* not "<", although its text begins so */
    OK(rp_matcher_forced(m, &forced));
    cr_expect_eq(forced.n, 0);
    OK(rp_matcher_accept(m, 2));
    cr_expect_eq(mask(), 1u << 3 | 1u << 4 | 1u << 5 | 1u << 7); /* any text, but not the token <c> */
    OK(rp_matcher_accept(m, 3));
    OK(rp_matcher_accept(m, 3));
    cr_expect_eq(mask(), 1u << 1); /* and not the bytes that stand for it */
    OK(rp_matcher_accept(m, 1));
    REFUSED(rp_matcher_accept(m, 1), RP_E_ARG, "grammar: token 1 is not allowed here");
    RpMatcher *copy;
    OK(rp_matcher_copy(m, &copy));
    OK(rp_matcher_accept(copy, 4));
    cr_expect(rp_matcher_finished(copy));
    rp_matcher_free(copy);
    close_parts();
}

Test(grammar_parts, a_token_that_ends_a_reply_may_be_asked_for) {
    /* clang-format off */
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_TEXT, .text = "c", .n = 1},
        {.kind = RP_PART_TOKEN, .token = 0        }
    };
    /* clang-format on */
    open_parts(parts, 2);
    cr_expect_eq(mask(), 1u << 4);
    OK(rp_matcher_accept(m, 4));
    cr_expect_eq(mask(), 1u << 0);
    OK(rp_matcher_accept(m, 0));
    cr_expect(rp_matcher_finished(m));
    close_parts();
}

Test(grammar_parts, groups_are_alternatives) {
    /* clang-format off */
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_OPEN},
        {.kind = RP_PART_TEXT, .text = "<", .n = 1},
        {.kind = RP_PART_OR},
        {.kind = RP_PART_OPEN},
        {.kind = RP_PART_OR},
        {.kind = RP_PART_TEXT, .text = "c", .n = 1},
        {.kind = RP_PART_CLOSE},
        {.kind = RP_PART_SCHEMA, .text = "{\"enum\": [1, [1]]}", .n = 18},
        {.kind = RP_PART_CLOSE},
        {.kind = RP_PART_SCHEMA, .text = "{\"enum\": [1, [1]]}", .n = 18},
    };
    static const struct {
        const char *text;
        bool        whole;
    } cases[] = {
        {"<1",     true },
        {"11",     true },
        {"c[1]1",  true },
        {"c1[1]",  true },
        {"<",      false},
        {"c1",     false},
        {"<c1",    false},
        {"c<1",    false},
        {"11\xff", false}
    };
    /* clang-format on */
    open_parts(parts, sizeof parts / sizeof parts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_matcher_reset(m);
        const bool taken = rp_matcher_accept_text(m, cases[i].text, strlen(cases[i].text)) == RP_OK;
        cr_expect_eq(taken && rp_matcher_complete(m), cases[i].whole, CASE(i));
    }
    close_parts();
}

Test(grammar_parts, groups_may_repeat) {
    /* clang-format off */
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_TEXT, .text = "<", .n = 1},
        {.kind = RP_PART_OPEN},
        {.kind = RP_PART_TEXT, .text = "1", .n = 1},
        {.kind = RP_PART_OR},
        {.kind = RP_PART_OPEN},
        {.kind = RP_PART_TEXT, .text = "c", .n = 1},
        {.kind = RP_PART_REPEAT},
        {.kind = RP_PART_REPEAT, .text = ", ?", .n = 3},
        {.kind = RP_PART_TEXT, .text = ">", .n = 1},
    };
    static const struct {
        const char *text;
        bool        whole;
    } cases[] = {
        {"<1>",          true },
        {"<1,c>",        true },
        {"<ccc, 1,1,c>", true },
        {"<>",           false},
        {"<1,>",         false},
        {"<11>",         false},
        {"<1,  c>",      false},
        {"<c",           false}
    };
    /* clang-format on */
    open_parts(parts, sizeof parts / sizeof parts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_matcher_reset(m);
        const bool taken = rp_matcher_accept_text(m, cases[i].text, strlen(cases[i].text)) == RP_OK;
        cr_expect_eq(taken && rp_matcher_complete(m), cases[i].whole, CASE(i));
    }
    close_parts();
}

Test(grammar_parts, members_may_have_any_order) {
#define FEW                                                                                                            \
    "{\"type\": \"object\", \"properties\": {\"1\": {\"const\": 1}, \"c\": {\"const\": 2}}, \"required\": [\"c\"], "
#define MANY                                                                                                           \
    "{\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}, \"c\": {}, \"d\": {}, \"e\": {}, \"f\": {}, "     \
    "\"g\": {\"const\": 3}}, \"required\": [\"a\", \"g\"], \"type\": \"object\", \"additionalProperties\": false"
    static const struct {
        const char *schema, *text;
        bool        whole;
    } cases[] = {
        {FEW "\"additionalProperties\": false}", "{\"c\": 2, \"1\": 1}",                      true },
        {FEW "\"additionalProperties\": false}", "{\"1\": 1, \"c\": 2}",                      true },
        {FEW "\"additionalProperties\": false}", "{\"c\": 2}",                                true },
        {FEW "\"additionalProperties\": false}", "{\"1\": 1}",                                false},
        {FEW "\"additionalProperties\": false}", "{\"c\": 2, \"c\": 2}",                      false},
        {FEW "\"additionalProperties\": false}", "{\"c\": 1}",                                false},
        {FEW "\"additionalProperties\": false}", "{\"c\": 2, \"x\": 1}",                      false},
        {FEW "\"minProperties\": 0}",            "{\"x\": [], \"c\": 2, \"y\": 0, \"1\": 1}", true },
        {FEW "\"minProperties\": 0}",            "{\"x\": [], \"1\": 1}",                     false},
        {FEW "\"maxProperties\": 3}",            "{\"c\": 2, \"1\": 1}",                      false}, /* keeps its order */
        {MANY "}",                               "{\"g\": 3, \"f\": 0, \"a\": 1}",            true },
        {MANY "}",                               "{\"f\": 0, \"a\": 1, \"f\": 1, \"g\": 3}",  true }, /* optional ones repeat */
        {MANY "}",                               "{\"g\": 3, \"f\": 0, \"a\": 1, \"a\": 1}",  false},
        {MANY "}",                               "{\"g\": 3, \"f\": 0}",                      false},
        {MANY ", \"minProperties\": 2}",         "{\"g\": 3, \"a\": 1}",                      true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OK(rp_grammar_vocab_of(vocabulary, N, (int32_t[]){0}, 1, &v));
        OK(rp_grammar_json_schema(cases[i].schema, strlen(cases[i].schema), RP_GRAMMAR_ANY_ORDER, &g));
        OK(rp_matcher_new(g, v, &m));
        const bool taken = rp_matcher_accept_text(m, cases[i].text, strlen(cases[i].text)) == RP_OK;
        cr_expect_eq(taken && rp_matcher_complete(m), cases[i].whole, "%s: %s", cases[i].schema, cases[i].text);
        close_parts();
    }
}

Test(grammar_parts, refuses_bad_parts) {
    RpGrammar    *out;
    RpGrammarPart many[80] = {{.kind = RP_PART_TEXT}};
    for (int i = 0; i < 80; i++) many[i].kind = i < 40 ? RP_PART_OPEN : RP_PART_CLOSE;
    OK(rp_grammar_parts(many, 80, &out));
    rp_grammar_free(out);
    REFUSED(rp_grammar_parts(many, 79, &out), RP_E_ARG, "grammar: a group is not closed, or not opened");
    REFUSED(rp_grammar_parts(many + 1, 79, &out), RP_E_ARG, "grammar: a group is not closed, or not opened");
    for (int i = 0; i < 80; i++) many[i].kind = RP_PART_CLOSE;
    REFUSED(rp_grammar_parts(many, 80, &out), RP_E_ARG, "grammar: groups nested more than 64 deep");
    many[0] = (RpGrammarPart){.kind = RP_PART_TOKEN, .token = -1};
    REFUSED(rp_grammar_parts(many, 1, &out), RP_E_ARG, "grammar: token -1");
    many[0].kind = (RpGrammarPartKind)99;
    REFUSED(rp_grammar_parts(many, 1, &out), RP_E_ARG, "grammar: part 0 is of kind 99");
    many[0] = (RpGrammarPart){.kind = RP_PART_SCHEMA, .text = "{\"maxContains\": 1}", .n = 18};
    REFUSED(rp_grammar_parts(many, 1, &out), RP_E_UNSUPPORTED, "JSON schema: maxContains at # is not supported");
    cr_expect(out == NULL);
}
