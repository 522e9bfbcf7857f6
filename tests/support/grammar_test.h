/* grammar_test.h - grammars in tests: a vocabulary of all single bytes, and whether a grammar has a text. */
#ifndef TESTS_GRAMMAR_TEST_H
#define TESTS_GRAMMAR_TEST_H

#include "reprise/grammar.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { BYTES_END = 256 }; /* the end token of byte_vocab */

#define OK(call) cr_assert_eq(call, RP_OK, "%s", rp_last_error())

/* Token i < 256 is byte i. */
static inline RpGrammarVocab *byte_vocab(void) {
    static char         bytes[256];
    static RpGgufString tokens[257];
    const int32_t       end = BYTES_END;
    RpGrammarVocab     *v;
    for (int i = 0; i < 256; i++) {
        bytes[i]  = (char)i;
        tokens[i] = (RpGgufString){&bytes[i], 1};
    }
    tokens[256] = (RpGgufString){"", 0};
    OK(rp_grammar_vocab_of(tokens, 257, &end, 1, &v));
    return v;
}

static inline bool has_bit(const uint32_t *bits, int32_t i) { return (bits[i / 32] >> (i % 32) & 1) != 0; }

/* True if the whole text is one of the grammar's. */
static inline bool matches_n(const RpGrammar *g, const char *text, size_t n) {
    RpGrammarVocab *v = byte_vocab();
    RpMatcher      *m;
    OK(rp_matcher_new(g, v, &m));
    const RpStatus st = rp_matcher_accept_text(m, text, n);
    cr_assert(st == RP_OK || st == RP_E_ARG, "%s", rp_last_error());
    const bool whole = st == RP_OK && rp_matcher_complete(m);
    rp_matcher_free(m);
    rp_grammar_vocab_free(v);
    return whole;
}

static inline bool matches(const RpGrammar *g, const char *text) { return matches_n(g, text, strlen(text)); }

/* The mask of each token is whether its bytes can be appended: checked one token at a time, without the trie. */
static inline void check_mask(RpMatcher *m, const RpGgufString *tokens, int32_t n, const char *where) {
    uint32_t bits[64];
    cr_assert_leq(n, 2048);
    OK(rp_matcher_mask(m, bits));
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i].len == 0) continue;
        const RpStatus st = rp_matcher_accept_text(m, tokens[i].ptr, tokens[i].len);
        cr_assert_eq(has_bit(bits, i), st == RP_OK, "%s: token %d \"%.*s\"", where, i, (int)tokens[i].len,
                     tokens[i].ptr);
        if (st == RP_OK) OK(rp_matcher_rollback(m, 1));
    }
}

#endif
