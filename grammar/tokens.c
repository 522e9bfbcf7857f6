#include "grammar/tokens.h"

#include <string.h>

void rp_token_text(int32_t token, char out[TOKEN_TEXT]) {
    out[0] = (char)TOKEN_BYTE;
    for (int i = 1; i < TOKEN_TEXT; i++) out[i] = (char)(0x80 | (token >> (7 * (i - 1)) & 0x7f));
}

bool rp_grammar_has_token(const RpGrammar *g, int32_t token) {
    for (size_t i = 0; i < g->n_tokens; i++)
        if (g->tokens[i] == token) return true;
    return false;
}

RpStatus rp_matcher_find_foreign(RpMatcher *m) {
    const RpGrammarVocab *v = m->v;
    if (m->g->n_tokens == 0) return RP_OK;
    for (int32_t i = 0; i < v->n; i++) {
        const uint32_t n = v->offset[i + 1] - v->offset[i];
        if (n == 0 || memchr(v->text + v->offset[i], TOKEN_BYTE, n) == NULL) continue;
        RP_TRY(RP_GROW(m->foreign, m->foreign_room, m->n_foreign + 1));
        m->foreign[m->n_foreign++] = i;
    }
    return RP_OK;
}

bool rp_matcher_is_foreign(const RpMatcher *m, int32_t token) {
    for (size_t i = 0; i < m->n_foreign; i++)
        if (m->foreign[i] == token) return true;
    return false;
}
