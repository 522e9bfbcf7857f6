/* tokens.h - tokens of a grammar that count only as tokens. In the text of the automata such a token is a byte that
 * UTF-8 never has, and its id. */
#ifndef GRAMMAR_TOKENS_H
#define GRAMMAR_TOKENS_H

#include "grammar/matcher.h"

enum { TOKEN_BYTE = 0xff, TOKEN_TEXT = 5, TOKEN_LIMIT = 1 << 28 };

void rp_token_text(int32_t token, char out[TOKEN_TEXT]);
bool rp_grammar_has_token(const RpGrammar *g, int32_t token);

/* The tokens of the vocabulary whose own bytes could be taken for those of a token: never allowed. */
RP_NODISCARD RpStatus rp_matcher_find_foreign(RpMatcher *m);
bool                  rp_matcher_is_foreign(const RpMatcher *m, int32_t token);

#endif
