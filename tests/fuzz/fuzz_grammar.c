/* Fuzz target: a grammar and a text. The first byte chooses the kind: a schema (also weakened, compact), GBNF, a
 * regular expression, choices. Behind a NUL follow bytes that choose tokens. A mask is what can be appended, byte by
 * byte, and is the same after going back. A place without tokens is the end of a text. */
#include "reprise/grammar.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_WORDS = 40, N_TOKENS = 256 + N_WORDS, MAX_STEPS = 24 };

static const char *const words[N_WORDS] = {"{\"",   "\":",  "\": ",     "\",",      "\", \"", "\"}",    "[]",   "[[",
                                           "]]",    "],",   "}}",       "},",       "true",   "false",  "null", "12",
                                           "0.5",   "1e",   "-1",       "ab",       "abc",    "name",   "a\"",  "\\n",
                                           "\\u00", "\\\"", "\xc3\xa9", "\xe2\x82", "  ",     "\n  ",   "root", "x y",
                                           "aa",    "aaaa", "1,",       "1]",       "\"a\"",  "\"b\":", "z",    ".."};

static RpGrammarVocab *vocabulary(void) {
    static unsigned char bytes[256];
    RpGgufString         tokens[N_TOKENS + 1];
    const int32_t        end = N_TOKENS;
    RpGrammarVocab      *v;
    for (int i = 0; i < 256; i++) {
        bytes[i]  = (unsigned char)i;
        tokens[i] = (RpGgufString){(const char *)&bytes[i], 1};
    }
    for (int i = 0; i < N_WORDS; i++) tokens[256 + i] = (RpGgufString){words[i], strlen(words[i])};
    tokens[N_TOKENS] = (RpGgufString){"", 0};
    if (rp_grammar_vocab_of(tokens, N_TOKENS + 1, &end, 1, &v) != RP_OK) abort();
    return v;
}

static RpStatus compile(unsigned kind, const char *text, size_t n, RpGrammar **g) {
    const RpGgufString two[2] = {
        {text,         n / 2    },
        {text + n / 2, n - n / 2}
    };
    switch (kind % 7) {
    case 0:
        return rp_grammar_json_schema(text, n, RP_GRAMMAR_WEAKEN, g);
    case 1:
        return rp_grammar_json_schema(text, n, RP_GRAMMAR_WEAKEN | RP_GRAMMAR_COMPACT, g);
    case 2:
        return rp_grammar_json_schema(text, n, 0, g);
    case 3:
        return rp_grammar_gbnf(text, n, g);
    case 4:
        return rp_grammar_choices(two, 2, g);
    default:
        return rp_grammar_regex(text, n, g);
    }
}

static bool has(const uint32_t *bits, size_t i) { return (bits[i / 32] >> (i % 32) & 1) != 0; }

/* Each word's bit is whether its bytes can be appended. */
static void check_words(RpMatcher *m, const uint32_t *bits) {
    for (size_t i = 0; i < N_WORDS; i++) {
        const RpStatus st = rp_matcher_accept_text(m, words[i], strlen(words[i]));
        if (st != RP_OK && st != RP_E_ARG) return; /* a limit */
        if ((st == RP_OK) != has(bits, 256 + i)) __builtin_trap();
        if (st == RP_OK && rp_matcher_rollback(m, 1) != RP_OK) __builtin_trap();
    }
}

static void walk(RpMatcher *m, const uint8_t *choice, size_t n) {
    uint32_t bits[N_TOKENS / 32 + 1], again[N_TOKENS / 32 + 1];
    for (size_t step = 0; step < MAX_STEPS; step++) {
        if (rp_matcher_mask(m, bits) != RP_OK) return;
        check_words(m, bits);
        if (rp_matcher_mask(m, again) != RP_OK) return;
        if (memcmp(bits, again, sizeof bits) != 0) __builtin_trap();
        const size_t from = step < n ? choice[step] * 7u % N_TOKENS : step % N_TOKENS;
        size_t       i    = 0;
        while (i <= N_TOKENS && !has(bits, (from + i) % (N_TOKENS + 1))) i++;
        if (i > N_TOKENS) { /* no token: the text has ended, or is at its end */
            if (!rp_matcher_finished(m)) __builtin_trap();
            return;
        }
        if (rp_matcher_accept(m, (int32_t)((from + i) % (N_TOKENS + 1))) == RP_E_ARG) __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static RpGrammarVocab *v;
    RpGrammar             *g;
    RpMatcher             *m;
    if (v == NULL) v = vocabulary();
    if (size < 2) return -1;
    const uint8_t *end  = memchr(data + 1, '\0', size - 1);
    const size_t   n    = end == NULL ? size - 1 : (size_t)(end - data - 1);
    char          *text = malloc(n + 1);
    if (text == NULL) return 0;
    memcpy(text, data + 1, n);
    if (compile(data[0], text, n, &g) == RP_OK) {
        if (rp_matcher_new(g, v, &m) == RP_OK) {
            walk(m, end == NULL ? data : end, end == NULL ? 0 : size - n - 1);
            rp_matcher_free(m);
        }
        rp_grammar_free(g);
    }
    free(text);
    return 0;
}
