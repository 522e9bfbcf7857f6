/* Grammars of regular expressions and choices, and what a matcher says about tokens. Masks are compared with appending
 * the bytes of each token; expressions with lists of texts (test_grammar_golden compares with llguidance). */
#include "tests/support/case.h"
#include "tests/support/grammar_test.h"

static RpGrammar *regex(const char *pattern) {
    RpGrammar *g;
    cr_assert_eq(rp_grammar_regex(pattern, strlen(pattern), &g), RP_OK, "%s: %s", pattern, rp_last_error());
    return g;
}

/* Texts in the form "+yes|-no|...". */
static void check_texts(const char *pattern, const char *texts) {
    RpGrammar *g = regex(pattern);
    while (*texts != '\0') {
        const size_t n = strcspn(texts + 1, "|");
        cr_expect_eq(matches_n(g, texts + 1, n), texts[0] == '+', "%s: %.*s", pattern, (int)n, texts + 1);
        texts += 1 + n;
        texts += *texts == '|';
    }
    rp_grammar_free(g);
}

Test(grammar, regular_expressions_match_whole_texts) {
    check_texts("abc", "+abc|-ab|-abcd|-");
    check_texts("a*b+c?", "+b|+aab|+bc|-c|-");
    check_texts("(foo|bar){2,3}", "+foobar|-foo|+foobarfoo|-foobarfoobar");
    check_texts("(a|ab)(c|bcd)*", "+abcd|+ac|+abc|+abcdbcd|-abd");
    check_texts("\\d{3}-\\w+", "+123-a_4|-12-3|-123-|-123-\xc3\xa9");
    check_texts("[^a-c]+", "+def|-da|+\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80|-\xc3|-");
    check_texts("[\\u00e9-\\u20ac]", "+\xc3\xa9|+\xe2\x82\xac|-e|-\xe2\x82\xad|-\xc3\xa8");
    check_texts("\\u{1f600}|\\ud83d\\ude01", "+\xf0\x9f\x98\x80|+\xf0\x9f\x98\x81|-\xf0\x9f\x98\x82");
    check_texts("^(a|b)$", "+a|+b|-ab");
    check_texts("^a|b$", "+a|+b|-ab");
    check_texts("a(^b|c)$", "+ac|-ab");
    check_texts(".", "+a|+\xe2\x82\xac|-\n|-\xe2\x80\xa8|-");
    check_texts("(?:x(?<name>y))+", "+xy|+xyxy|-x");
    check_texts("(?!foo)\\w+", "+fob|+fo|+bar|-foo|-foobar");
    check_texts("(?=.*\\d)[a-z0-9]{3}", "+ab1|+1ab|-abc");
    check_texts("[a-]x|[\\]]|[\\b]|\\x41\\cJ\\0?", "+ax|+-x|+]|+\b|+A\n|-b");
    check_texts("a{2}|b{3,}|{x|c{,2}", "+aa|-a|+bbbb|-bb|+{x|+c{,2}");
    check_texts("a{0}b+?c*?", "+b|+bbc|-ab");
    check_texts("\\s\\S\\D\\W", "+ ax!| -|+\xe3\x80\x80ya ");
    check_texts("", "+|-a");
}

Test(grammar, choices_are_the_texts_alone) {
    const RpGgufString texts[] = {
        {"hello", 5},
        {"help",  4},
        {"a\0b",  3},
        {"hel",   3},
        {"",      0}
    };
    RpGrammar *g;
    OK(rp_grammar_choices(texts, 5, &g));
    for (int i = 0; i < 5; i++) cr_expect(matches_n(g, texts[i].ptr, texts[i].len), CASE(i));
    cr_expect(!matches(g, "he"));
    cr_expect(!matches(g, "helpo"));
    cr_expect(!matches(g, "a"));
    rp_grammar_free(g);
}

/* Tokens that end within, at and beyond lexemes. */
static const RpGgufString tokens[] = {
    {"{",        1},
    {"}",        1},
    {"{\"",      2},
    {"\"",       1},
    {"\":",      2},
    {"\": ",     3},
    {"a",        1},
    {"ab",       2},
    {"name",     4},
    {" ",        1},
    {"\n",       1},
    {",",        1},
    {", \"",     3},
    {"\",",      2},
    {"\"}",      2},
    {"1",        1},
    {"12",       2},
    {"12,",      3},
    {"-",        1},
    {".5",       2},
    {"e3",       2},
    {"null",     4},
    {"nu",       2},
    {"ll}",      3},
    {"[",        1},
    {"]",        1},
    {"[1",       2},
    {"1]",       2},
    {"],",       2},
    {"\\",       1},
    {"\\n",      2},
    {"\\\"x",    3},
    {"\xc3",     1},
    {"\xa9",     1},
    {"\xc3\xa9", 2},
    {"true",     4},
    {"tr",       2},
    {"ue}",      3},
    {"\"a\": ",  5},
    {"\"b\":",   4},
    {"12}\n",    4},
    {"[[",       2},
    {"]]",       2},
    {"]}",       2},
    {" a b c",   6},
    {"\t",       1},
    {"\"\"",     2},
    {"",         0},
    {"{\"a\":1", 6},
    {"\"b\"",    3},
    {"0",        1},
    {"00",       2},
    {"a\"",      2},
    {"b\"}",     3},
    {"b\", \"c", 7},
    {"\x7f",     1}
};
enum { N_TOKENS = sizeof tokens / sizeof tokens[0], END_TOKEN = 47 };

/* Walks a text token by token, as far as tokens go, and checks the mask at each place. */
static void check_walk(const RpGrammar *g, const char *text) {
    const int32_t   end = END_TOKEN;
    RpGrammarVocab *v;
    RpMatcher      *m;
    OK(rp_grammar_vocab_of(tokens, N_TOKENS, &end, 1, &v));
    OK(rp_matcher_new(g, v, &m));
    for (size_t at = 0;; at++) {
        uint32_t bits[(N_TOKENS + 31) / 32];
        check_mask(m, tokens, N_TOKENS, text);
        OK(rp_matcher_mask(m, bits));
        cr_expect_eq(has_bit(bits, END_TOKEN), rp_matcher_complete(m), "%s at %zu", text, at);
        if (text[at] == '\0') break;
        cr_assert_eq(rp_matcher_accept_text(m, text + at, 1), RP_OK, "%s at %zu", text, at);
    }
    cr_expect(rp_matcher_complete(m), "%s", text);
    rp_matcher_free(m);
    rp_grammar_vocab_free(v);
}

Test(grammar, masks_are_the_tokens_that_can_be_appended) {
    RpGrammar *g = regex("[a-z\" ]*(1|12|12,)?[\\n}]*");
    check_walk(g, "name \"ab12}\n");
    rp_grammar_free(g);
    g = regex("\"(a|ab|\\\\[n\"])*\"");
    check_walk(g, "\"aab\\n\"");
    rp_grammar_free(g);
    OK(rp_grammar_json(0, &g));
    check_walk(g, "{\"a\": [1, 12.5e3, \"\xc3\xa9\\n\"], \"b\":{\"c\":null}}");
    rp_grammar_free(g);
    OK(rp_grammar_json(RP_GRAMMAR_COMPACT, &g));
    check_walk(g, "{\"a\":[1,-0.5,\"b c\"],\"b\":{\"c\":true}}");
    rp_grammar_free(g);
}

Test(grammar, going_back_gives_the_same_masks) {
    static const char text[] = "{\"a\": [1, 12], \"b\": \"x\"}";
    enum { N = sizeof text - 1 };
    uint32_t        bits[N + 1][9], again[9];
    RpGrammarVocab *v = byte_vocab();
    RpGrammar      *g;
    RpMatcher      *m, *copy;
    OK(rp_grammar_json(0, &g));
    OK(rp_matcher_new(g, v, &m));
    for (int i = 0; i < N; i++) {
        OK(rp_matcher_mask(m, bits[i]));
        OK(rp_matcher_accept(m, (unsigned char)text[i]));
    }
    OK(rp_matcher_mask(m, bits[N]));
    cr_expect(rp_matcher_finished(m));
    OK(rp_matcher_accept(m, BYTES_END));
    OK(rp_matcher_mask(m, again));
    for (int w = 0; w < 9; w++) cr_expect_eq(again[w], 0u, CASE(w));
    OK(rp_matcher_rollback(m, 1));
    for (int i = N; i >= 0; i--) { /* a copy goes on by itself */
        OK(rp_matcher_mask(m, again));
        cr_expect_eq(memcmp(again, bits[i], sizeof again), 0, CASE(i));
        OK(rp_matcher_copy(m, &copy));
        for (int k = i; k < N; k++) cr_assert_eq(rp_matcher_accept(copy, (unsigned char)text[k]), RP_OK, CASE(i, k));
        OK(rp_matcher_mask(copy, again));
        cr_expect_eq(memcmp(again, bits[N], sizeof again), 0, CASE(i));
        rp_matcher_free(copy);
        if (i > 0) OK(rp_matcher_rollback(m, 1));
    }
    OK(rp_matcher_accept_text(m, text, 5));
    rp_matcher_reset(m);
    OK(rp_matcher_mask(m, again));
    cr_expect_eq(memcmp(again, bits[0], sizeof again), 0);
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_grammar_vocab_free(v);
}

/* Tokens of equal bytes are allowed together. */
Test(grammar, tokens_of_equal_bytes_share_their_bit) {
    const RpGgufString twice[] = {
        {"a",  1},
        {"b",  1},
        {"a",  1},
        {"\"", 1},
        {"\"", 1},
        {"a",  1}
    };
    RpGrammarVocab *v;
    RpMatcher      *m;
    uint32_t        bits;
    RpGrammar      *g = regex("a\"b");
    OK(rp_grammar_vocab_of(twice, 6, NULL, 0, &v));
    OK(rp_matcher_new(g, v, &m));
    OK(rp_matcher_mask(m, &bits));
    cr_expect_eq(bits, 0x25u);
    OK(rp_matcher_accept(m, 5));
    OK(rp_matcher_mask(m, &bits));
    cr_expect_eq(bits, 0x18u);
    rp_matcher_free(m);
    rp_grammar_vocab_free(v);
    rp_grammar_free(g);
}

/* A list of any length needs no more rows than a short one; the threads of a place are all that grows. */
Test(grammar, long_texts_and_deep_ones_are_accepted) {
    enum { N = 20000 };
    static char text[2 * N + 8];
    RpGrammar  *g;
    size_t      n = 0;
    OK(rp_grammar_json(0, &g));
    n += (size_t)sprintf(text, "{\"a\":[1");
    for (int i = 0; i < N / 2; i++) n += (size_t)sprintf(text + n, ",%d", i % 10);
    n += (size_t)sprintf(text + n, "]}");
    cr_expect(matches_n(g, text, n));
    n = (size_t)sprintf(text, "{\"a\":");
    for (int i = 0; i < 5000; i++) text[n++] = '[';
    for (int i = 0; i < 5000; i++) text[n++] = ']';
    text[n++] = '}';
    cr_expect(matches_n(g, text, n));
    rp_grammar_free(g);
}

/* Frees g. */
static void check_grammar(RpGrammar *g, const char *grammar, const char *texts) {
    while (*texts != '\0') {
        const size_t n = strcspn(texts + 1, "|");
        cr_expect_eq(matches_n(g, texts + 1, n), texts[0] == '+', "%s: %.*s", grammar, (int)n, texts + 1);
        texts += 1 + n;
        texts += *texts == '|';
    }
    rp_grammar_free(g);
}

static void check_gbnf(const char *grammar, const char *texts) {
    RpGrammar *g;
    cr_assert_eq(rp_grammar_gbnf(grammar, strlen(grammar), &g), RP_OK, "%s: %s", grammar, rp_last_error());
    check_grammar(g, grammar, texts);
}

static void check_schema(const char *schema, const char *texts) {
    RpGrammar *g;
    cr_assert_eq(rp_grammar_json_schema(schema, strlen(schema), 0, &g), RP_OK, "%s: %s", schema, rp_last_error());
    check_grammar(g, schema, texts);
}

Test(grammar, minus_zero_is_not_below_zero) {
    check_schema("{\"type\": \"number\", \"exclusiveMaximum\": 0}", "--0|--0.0|-0|+-0.5|+-3|+-10.0|-1");
    check_schema("{\"type\": \"number\", \"maximum\": 0}", "+-0|+0|+-0.5|+-3|-1");
}

Test(grammar, names_of_properties_hold_for_those_that_are_listed) {
    check_schema(
        "{\"type\": \"object\", \"properties\": {\"Foo\": {\"type\": \"integer\"}, \"a\\\"\": {\"type\": \"integer\"}, "
        "\"bar\": {\"type\": \"integer\"}}, \"propertyNames\": {\"pattern\": \"^[a-z\\\"]+$\"}}",
        "-{\"Foo\": 1}|+{\"bar\": 1}|-{\"bar\": \"x\"}|+{\"a\\\"\": 1}|+{}");
}

Test(grammar, gbnf_has_recursion_on_both_sides) {
    check_gbnf("root ::= e\ne ::= e \"+\" t | t\nt ::= [0-9]+ | \"(\" e \")\"", "+1+2+(3+4)|-1+|+((1))|-|-1++2");
    check_gbnf("root ::= \"a\" root \"b\" | \"\"", "+|+ab|+aabb|-aab|-ba");
    check_gbnf("root ::= (\"a\" | \"b\" root \"c\"){2,3} # comment\n", "+aa|-a|+abaac|-aaaa|+baacbaac|-");
    check_gbnf("root ::= x{,2} y*\nx ::= \"x\" | \"[\" root \"]\"\ny ::= \"y\"", "+|+x|+xx|-xxx|+[x][y]yy|+yyy|-[");
    check_gbnf("root ::= s s\ns ::= s s | \"a\" | \"\"", "+|+a|+aaaaaaaaaaaa|-b");
    check_gbnf("root ::=\n  \"\\x41\\u00e9\" |\n  [^\\n] \"\\\"\"\n", "+A\xc3\xa9|+x\"|-\n\"");
    check_gbnf("root ::= \"\\U0001F600\" | [\\U00000041-\\U00000043]", "+\xf0\x9f\x98\x80|+A|+C|-U|-0|-D");
}
