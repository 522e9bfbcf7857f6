/* Masks against llguidance, and values of schemas against the JSON-Schema-Test-Suite (tests/golden/grammar). */
#include "tests/support/grammar_test.h"

#include <stdlib.h>

#define FOLDER RP_SOURCE_DIR "/tests/golden/grammar/"

enum { MAX_GOLDEN_TOKENS = 512 };

static FILE *golden(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *f = fopen(path, "r");
    cr_assert(f != NULL, "%s", path);
    return f;
}

/* The next line that is no comment, without its end; NULL at the end of the file. */
static char *next_line(FILE *f, char **line, size_t *room) {
    for (;;) {
        const ssize_t n = getline(line, room, f);
        if (n < 0) return NULL;
        (*line)[n - 1] = '\0';
        if ((*line)[0] != '#') return *line;
    }
}

/* No invalid value is accepted, and every valid one is that is not marked. */
static void check_suite(unsigned flags) {
    FILE      *f    = golden("schema_suite.txt");
    char      *line = NULL;
    size_t     room = 0, n_invalid = 0, n_valid = 0;
    RpGrammar *g = NULL;
    while (next_line(f, &line, &room) != NULL) {
        const char *text = line + 2;
        if (line[0] == 's') {
            rp_grammar_free(g);
            cr_assert_eq(rp_grammar_json_schema(text, strlen(text), flags, &g), RP_OK, "%s: %s", text, rp_last_error());
            continue;
        }
        const bool taken = matches(g, text);
        cr_expect(line[0] != '-' || !taken, "invalid, but accepted: %s", text);
        cr_expect(line[0] != '+' || taken, "valid, but refused: %s", text);
        n_invalid += line[0] == '-';
        n_valid += line[0] == '+';
    }
    cr_expect_gt(n_invalid, (size_t)700);
    cr_expect_gt(n_valid, (size_t)600);
    rp_grammar_free(g);
    free(line);
    fclose(f);
}

Test(grammar_golden, values_of_the_json_schema_test_suite) {
    check_suite(0);
    check_suite(RP_GRAMMAR_ANY_ORDER);
}

static uint32_t fnv1a(const uint32_t *words, size_t n) {
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < 4 * n; i++) h = (h ^ (words[i / 4] >> (i % 4 * 8) & 0xff)) * 0x01000193u;
    return h;
}

/* Tokens of a line "v <hex> ..."; their bytes lie in the line. */
static int32_t read_tokens(char *line, RpGgufString *tokens) {
    int32_t n = 0;
    for (char *word = strtok(line + 2, " "); word != NULL; word = strtok(NULL, " ")) {
        size_t k = 0;
        cr_assert_lt(n, MAX_GOLDEN_TOKENS, "token %d", n);
        for (; word[2 * k] != '\0'; k++) {
            const char pair[3] = {word[2 * k], word[2 * k + 1], '\0'};
            word[k]            = (char)strtoul(pair, NULL, 16);
        }
        tokens[n++] = (RpGgufString){word, k};
    }
    return n;
}

/* Each mask along a text has the hash of llguidance's; "-": not compared. */
static size_t check_text(RpMatcher *m, const char *text, char *hashes, int32_t n) {
    size_t compared = 0, at = 0;
    for (char *word = strtok(hashes, " "); word != NULL; word = strtok(NULL, " "), at++) {
        uint32_t bits[MAX_GOLDEN_TOKENS / 32 + 1];
        OK(rp_matcher_mask(m, bits));
        bits[3] &= 0x7fffffffu; /* byte 7f */
        if (word[0] != '-') {
            const uint32_t want = (uint32_t)strtoul(word, NULL, 16), got = fnv1a(bits, ((size_t)n + 31) / 32);
            cr_expect_eq(got, want, "%s at byte %zu", text, at);
            compared++;
        }
        if (text[at] != '\0') cr_assert_eq(rp_matcher_accept(m, (unsigned char)text[at]), RP_OK, "%s at %zu", text, at);
    }
    cr_expect_eq(at, strlen(text) + 1);
    return compared;
}

Test(grammar_golden, masks_are_llguidances) {
    static RpGgufString tokens[MAX_GOLDEN_TOKENS];
    FILE               *f    = golden("masks.txt");
    char               *line = NULL, *text = NULL, *vocabulary = NULL;
    size_t              room = 0, compared = 0;
    RpGrammarVocab     *v = NULL;
    RpGrammar          *g = NULL;
    int32_t             n = 0;
    while (next_line(f, &line, &room) != NULL) {
        RpMatcher *m;
        switch (line[0]) {
        case 'v': {
            vocabulary  = strdup(line);
            n           = read_tokens(vocabulary, tokens);
            int32_t end = n - 1;
            OK(rp_grammar_vocab_of(tokens, (size_t)n, &end, 1, &v));
            break;
        }
        case 'r':
        case 's':
            rp_grammar_free(g);
            cr_assert_eq(line[0] == 'r' ? rp_grammar_regex(line + 2, strlen(line + 2), &g)
                                        : rp_grammar_json_schema(line + 2, strlen(line + 2), RP_GRAMMAR_COMPACT, &g),
                         RP_OK, "%s: %s", line, rp_last_error());
            break;
        case 't':
            free(text);
            text = strdup(line + 2);
            break;
        default:
            OK(rp_matcher_new(g, v, &m));
            compared += check_text(m, text, line + 2, n);
            rp_matcher_free(m);
        }
    }
    cr_expect_gt(compared, (size_t)150);
    rp_grammar_free(g);
    rp_grammar_vocab_free(v);
    free(vocabulary), free(text), free(line);
    fclose(f);
}
