/* What is refused, and with which text. */
#include "tests/support/grammar_test.h"

static void refuse_regex(const char *pattern, RpStatus status, const char *text) {
    RpGrammar *g = (RpGrammar *)1;
    cr_expect_eq(rp_grammar_regex(pattern, strlen(pattern), &g), status, "%s", pattern);
    cr_expect_str_eq(rp_last_error(), text);
    cr_expect(g == NULL, "%s", pattern);
}

Test(grammar_refusals, bad_regular_expressions) {
    refuse_regex("(a", RP_E_FORMAT, "regular expression: a group without ) at byte 2");
    refuse_regex("(?!a", RP_E_FORMAT, "regular expression: a group without ) at byte 4");
    refuse_regex("a)", RP_E_FORMAT, "regular expression: a ) without a group at byte 1");
    refuse_regex("[a", RP_E_FORMAT, "regular expression: a class without ] at byte 2");
    refuse_regex("[b-a]", RP_E_FORMAT, "regular expression: a range that ends before it begins at byte 4");
    refuse_regex("*", RP_E_FORMAT, "regular expression: nothing to repeat at byte 0");
    refuse_regex("a{3,1}", RP_E_FORMAT,
                 "regular expression: a repetition whose lowest count is above its highest at byte 6");
    refuse_regex("(?<a", RP_E_FORMAT, "regular expression: a name of a group without > at byte 1");
    refuse_regex("a\\", RP_E_FORMAT, "regular expression: nothing behind \\ at byte 2");
    refuse_regex("\\u{110000}", RP_E_FORMAT, "regular expression: no code point behind \\u{ at byte 10");
}

Test(grammar_refusals, regular_expressions_that_are_not_regular) {
    refuse_regex("(a)\\1", RP_E_UNSUPPORTED, "regular expression: a back reference is not supported");
    refuse_regex("a\\b", RP_E_UNSUPPORTED, "regular expression: \\b is not supported");
    refuse_regex("\\p{L}", RP_E_UNSUPPORTED, "regular expression: \\p is not supported");
    refuse_regex("(?<=a)b", RP_E_UNSUPPORTED, "regular expression: a group of this kind is not supported");
    refuse_regex("a(b(?=c))", RP_E_UNSUPPORTED, "regular expression: a look-ahead in this place is not supported");
    refuse_regex("(?=^a)b", RP_E_UNSUPPORTED, "regular expression: ^ in a look-ahead is not supported");
    refuse_regex("(^a)*", RP_E_UNSUPPORTED, "regular expression: an anchor inside of a repetition is not supported");
    refuse_regex("a^b", RP_E_ARG, "grammar: no text satisfies it");
    char deep[300];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    refuse_regex(deep, RP_E_UNSUPPORTED, "regular expression: groups nested deeper than 100");
    for (int i = 0; i < 101; i++) memcpy(deep + (size_t)i * 2, i < 100 ? "(a" : "((", 2);
    memcpy(deep, "(?=", 3);
    deep[210] = '\0';
    refuse_regex(deep, RP_E_UNSUPPORTED, "regular expression: groups nested deeper than 100");
}

Test(grammar_refusals, tokens_that_are_not_allowed) {
    RpGrammarVocab *v = byte_vocab();
    RpGrammar      *g;
    RpMatcher      *m;
    OK(rp_grammar_regex("ab", 2, &g));
    OK(rp_matcher_new(g, v, &m));
    cr_expect_eq(rp_matcher_accept(m, 'b'), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: token 98 is not allowed here");
    cr_expect_eq(rp_matcher_accept(m, BYTES_END), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: token 256 is not allowed here");
    cr_expect_eq(rp_matcher_accept(m, 257), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: token 257 is outside of the vocabulary of 257");
    cr_expect_eq(rp_matcher_accept_text(m, "ac", 2), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: the text of 2 bytes is not allowed here");
    cr_expect_eq(rp_matcher_rollback(m, 1), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: 1 tokens back, 0 were accepted");
    OK(rp_matcher_accept_text(m, "ab", 2));
    OK(rp_matcher_accept(m, BYTES_END));
    cr_expect_eq(rp_matcher_accept_text(m, "", 0), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: the text has ended");
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_grammar_vocab_free(v);
}

Test(grammar_refusals, bad_vocabularies_and_choices) {
    const RpGgufString one  = {"a", 1};
    const int32_t      ends = 1;
    RpGrammarVocab    *v;
    RpGrammar         *g;
    cr_expect_eq(rp_grammar_vocab_of(&one, 0, NULL, 0, &v), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: a vocabulary of 0 tokens");
    cr_expect_eq(rp_grammar_vocab_of(&one, 1, &ends, 1, &v), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: end token 1 is outside of the vocabulary of 1");
    const RpGgufString large = {"a", (size_t)UINT32_MAX + 1};
    cr_expect_eq(rp_grammar_vocab_of(&large, 1, NULL, 0, &v), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: a vocabulary of 4294967296 bytes");
    cr_expect_eq(rp_grammar_choices(&one, 0, &g), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: no texts to choose from");
    cr_expect_eq(rp_grammar_json(64, &g), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "grammar: unknown flags 0x40");
}

static RpStatus schema(const char *text, unsigned flags, RpGrammar **g) {
    return rp_grammar_json_schema(text, strlen(text), flags, g);
}

static void refuse_schema(const char *text, RpStatus status, const char *error) {
    RpGrammar *g;
    cr_expect_eq(schema(text, 0, &g), status, "%s", text);
    cr_expect_str_eq(rp_last_error(), error);
}

Test(grammar_refusals, bad_schemas_name_the_place) {
    refuse_schema("{\"a\"", RP_E_FORMAT, "JSON schema: JSON: ':' is expected at byte 4");
    refuse_schema("{\"properties\": {\"a b\": {\"type\": 3}}}", RP_E_FORMAT,
                  "JSON schema: type that is no name at #/properties/a b");
    refuse_schema("{\"items\": 3}", RP_E_FORMAT,
                  "JSON schema: a schema is neither an object nor true or false at #/items");
    refuse_schema("{\"anyOf\": [{\"minLength\": 1.5}]}", RP_E_FORMAT,
                  "JSON schema: a count that is no whole number at #/anyOf/0/minLength");
    refuse_schema("{\"minimum\": \"1\"}", RP_E_FORMAT, "JSON schema: a bound that is no number at #/minimum");
    refuse_schema("{\"minimum\": 1e99}", RP_E_UNSUPPORTED, "JSON schema: the bound 1e99 has too many digits");
    refuse_schema("{\"not\": {\"const\": 1e99}}", RP_E_UNSUPPORTED, "JSON schema: the number 1e99 has too many digits");
    refuse_schema("{\"type\": \"object\", \"required\": [\"a\"], \"properties\": {\"a\": false}}", RP_E_ARG,
                  "grammar: no text satisfies it");
    refuse_schema("{\"required\": [\"A\"], \"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[a-z]+$\"}}",
                  RP_E_ARG, "grammar: no text satisfies it");
    refuse_schema("{\"minLength\": 3, \"maxLength\": 2, \"type\": \"string\"}", RP_E_ARG,
                  "grammar: no text satisfies it");
    refuse_schema("{\"minLength\": 2, \"maxLength\": 0, \"type\": \"string\"}", RP_E_ARG,
                  "grammar: no text satisfies it");
}

Test(grammar_refusals, keywords_that_cannot_be_kept_are_named_or_weakened) {
    static const char text[] =
        "{\"properties\": {\"b\": {\"type\": \"array\", \"uniqueItems\": true}, \"a\": {\"pattern\": \"(a)\\\\1\"}}}";
    RpGrammar *g;
    refuse_schema(text, RP_E_UNSUPPORTED,
                  "JSON schema: pattern at #/properties/a is not supported: regular expression: a "
                  "back reference is not supported");
    OK(schema(text, RP_GRAMMAR_WEAKEN, &g));
    cr_assert_eq(rp_grammar_n_notes(g), (size_t)2);
    cr_expect_str_eq(rp_grammar_note_at(g, 1), "uniqueItems at #/properties/b is ignored");
    cr_expect_str_eq(rp_grammar_note_at(g, 0), "pattern at #/properties/a is ignored: regular expression: a back "
                                               "reference is not supported");
    cr_expect_str_eq(rp_grammar_note_at(g, 2), "");
    cr_expect(matches(g, "{\"b\": [1, 1], \"a\": \"x\"}"));
    rp_grammar_free(g);
    refuse_schema("{\"$ref\": \"other.json#/a\"}", RP_E_UNSUPPORTED,
                  "JSON schema: $ref \"other.json#/a\" at # is not supported: there is no such schema in this one");
    OK(schema("{\"type\": \"string\", \"format\": \"color\"}", 0, &g));
    cr_expect_str_eq(rp_grammar_note_at(g, 0), "format \"color\" is not known: it allows every string");
    rp_grammar_free(g);
}

static void refuse_gbnf(const char *text, RpStatus status, const char *error) {
    RpGrammar *g;
    cr_expect_eq(rp_grammar_gbnf(text, strlen(text), &g), status, "%s", text);
    cr_expect_str_eq(rp_last_error(), error);
}

Test(grammar_refusals, bad_gbnf_names_line_and_column) {
    refuse_gbnf("x", RP_E_FORMAT, "GBNF:1:2: ::= is expected");
    refuse_gbnf("root ::= \"\\U1F600\"", RP_E_FORMAT, "regular expression: no code point behind \\U at byte 12");
    refuse_gbnf("root ::= \"a\"\n  \"b\"", RP_E_FORMAT, "GBNF:2:3: a name is expected");
    refuse_gbnf("root ::= \"a", RP_E_FORMAT, "GBNF:1:10: a text without closing quote");
    refuse_gbnf("root ::= x", RP_E_FORMAT, "GBNF:1:11: a rule before this place is not defined");
    refuse_gbnf("a ::= \"b\"", RP_E_FORMAT, "GBNF:1:10: there is no rule \"root\"");
    refuse_gbnf("root ::= (\"a\"", RP_E_FORMAT, "GBNF:1:14: a group without )");
    refuse_gbnf("root ::= \"a\"{3,2}", RP_E_FORMAT, "GBNF:1:18: a repetition whose lowest count is above its highest");
    refuse_gbnf("root ::= \"a\"{x}", RP_E_FORMAT, "GBNF:1:14: a count is expected");
    refuse_gbnf("root ::= \"a\"{2", RP_E_FORMAT, "GBNF:1:15: } is expected");
    refuse_gbnf("root ::= \"a\"{10001}", RP_E_FORMAT, "GBNF:1:20: a count above 10000");
    refuse_gbnf("root ::= \"a\" )", RP_E_FORMAT, "GBNF:1:14: a line end is expected");
    refuse_gbnf("root ::= \"a\"\nroot ::= \"b\"", RP_E_FORMAT, "GBNF:2:1: a rule that is there already");
    refuse_gbnf("root ::= \"\\d\"", RP_E_FORMAT, "GBNF:1:11: an escape that is no character");
    refuse_gbnf("root ::= root", RP_E_ARG, "grammar: no text satisfies it");
    char deep[400];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "root ::= ", 9);
    deep[399] = '\0';
    refuse_gbnf(deep, RP_E_FORMAT, "GBNF:1:211: groups nested too deeply");
}
