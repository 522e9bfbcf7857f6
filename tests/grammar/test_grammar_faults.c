/* Each allocation of compiling and matching fails once: the call reports it, and nothing is leaked. */
#include "tests/support/golden.h"
#include "tests/support/host_faults.h"
#include "tests/support/host_scenario.h"

#include "reprise/grammar.h"

TestSuite(grammar_faults, .init = make_folder, .fini = remove_folder);

/* Masks and tokens of a text, going back, a copy. */
static RpStatus match(const RpGrammar *g, const char *text) {
    static const RpGgufString tokens[] = {
        {"{",     1},
        {"\"a\"", 3},
        {":",     1},
        {"1",     1},
        {"}",     1},
        {"x\"",   2},
        {"",      0},
        {"ab",    2}
    };
    const int32_t   end = 6;
    RpGrammarVocab *v   = NULL;
    RpMatcher      *m = NULL, *copy = NULL;
    uint32_t        bits = 0;
    RpStatus        st   = rp_grammar_vocab_of(tokens, 8, &end, 1, &v);
    if (st == RP_OK) st = rp_matcher_new(g, v, &m);
    for (size_t i = 0; st == RP_OK && text[i] != '\0'; i++) {
        st = rp_matcher_mask(m, &bits);
        add_result(&bits, sizeof bits);
        if (st == RP_OK) st = rp_matcher_accept_text(m, text + i, 1);
    }
    if (st == RP_OK) st = rp_matcher_copy(m, &copy);
    if (st == RP_OK) st = rp_matcher_rollback(copy, 1);
    if (st == RP_OK) st = rp_matcher_mask(copy, &bits);
    add_result(&bits, sizeof bits);
    rp_matcher_free(copy);
    rp_matcher_free(m);
    rp_grammar_vocab_free(v);
    return st;
}

static RpStatus use(RpStatus st, RpGrammar *g, const char *text) {
    if (st == RP_OK) st = match(g, text);
    rp_grammar_free(g);
    return st;
}

static RpStatus run_schema(const char *schema) {
    RpGrammar     *g;
    const RpStatus st = rp_grammar_json_schema(schema, strlen(schema), RP_GRAMMAR_WEAKEN, &g);
    return use(st, g, "{\"a\": [1, \"ab\"]}");
}

static RpStatus run_gbnf(const char *text) {
    RpGrammar     *g;
    const RpStatus st = rp_grammar_gbnf(text, strlen(text), &g);
    return use(st, g, "abab");
}

static RpStatus run_regex(const char *pattern) {
    RpGrammar     *g;
    const RpStatus st = rp_grammar_regex(pattern, strlen(pattern), &g);
    return use(st, g, "abab");
}

static RpStatus run_choices(const char *name) {
    const RpGgufString texts[] = {
        {"abab", 4},
        {"abc",  3},
        {name,   7}
    };
    RpGrammar     *g;
    const RpStatus st = rp_grammar_choices(texts, 3, &g);
    return use(st, g, "abab");
}

Test(grammar_faults, compiling_a_schema) {
    fail_each_call("schema", run_schema,
                   "{\"$defs\": {\"n\": {\"type\": [\"integer\", \"string\"], \"minimum\": 1, \"multipleOf\": 0.5, "
                   "\"pattern\": \"^[a-c]+$\"}}, \"type\": \"object\", \"properties\": {\"a\": {\"items\": {\"oneOf\": "
                   "[{\"$ref\": \"#/$defs/n\"}, {\"enum\": [true, [1], {\"x\": null}]}]}, \"uniqueItems\": true, "
                   "\"contains\": {\"const\": 1}}, \"b\": {\"format\": \"date\"}}, \"patternProperties\": {\"^x\": "
                   "{\"not\": {\"type\": \"null\"}}}, \"propertyNames\": {\"maxLength\": 9}, \"dependentRequired\": "
                   "{\"b\": [\"a\"]}, \"minProperties\": 1, \"if\": {\"required\": [\"q\"]}, \"then\": false}");
}

static RpStatus run_parts(const char *schema) {
    const RpGrammarPart parts[] = {
        {.kind = RP_PART_OPEN},
        {                              .kind = RP_PART_SCHEMA, .text = schema, .n = strlen(schema), .flags = RP_GRAMMAR_ANY_ORDER},
        { .kind = RP_PART_REPEAT,                       .text = ", ?", .n = 3}
    };
    RpGrammar     *g;
    const RpStatus st = rp_grammar_parts(parts, 3, &g);
    return use(st, g, "{\"b\": 1, \"a\": 2}, {\"a\": 1}");
}

Test(grammar_faults, groups_that_repeat) {
    fail_each_call("parts", run_parts,
                   "{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {\"type\": \"integer\"}}, "
                   "\"required\": [\"a\"]}");
}

Test(grammar_faults, reading_gbnf) {
    fail_each_call("gbnf", run_gbnf, "root ::= (pair | \"x\" root)+ | [ab]{2}\npair ::= a \"b\"\na ::= \"a\" | \"c\"+");
}

Test(grammar_faults, regular_expressions_and_choices) {
    fail_each_call("regex", run_regex, "(?!x)(ab|[^a-z]\\d)*");
    fail_each_call("choices", run_choices, "another");
}
