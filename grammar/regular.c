/* Grammars of one lexeme: a regular expression, a list of texts. */
#include "grammar/grammar.h"
#include "grammar/pattern.h"
#include "grammar/texts.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

static RpStatus of_expression(RpGrammar *g, Rx e, RpStatus st, RpGrammar **out) {
    const uint32_t rule = rp_grammar_rule(g);
    rp_grammar_define(g, rule, rp_grammar_lexeme(g, e, rp_grammar_end(g, rule)));
    return rp_grammar_finish(g, rule, st, out);
}

RpStatus rp_grammar_regex(const char *pattern, size_t n, RpGrammar **out) {
    RP_OUT(out, "out");
    if (n > 0) RP_NOT_NULL(pattern, "pattern");
    RpGrammar *g;
    Rx         e = RX_NONE;
    RP_TRY(rp_grammar_open(&g));
    const RpStatus st = rp_pattern(&g->rx, n > 0 ? pattern : "", n, 0, &e);
    return of_expression(g, e, st, out);
}

RpStatus rp_grammar_choices(const RpGgufString *texts, size_t n, RpGrammar **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(texts, "texts");
    RpGrammar *g;
    if (n < 1) return rp_fail(RP_E_ARG, "grammar: no texts to choose from");
    RpGgufString *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    memcpy(sorted, texts, n * sizeof *sorted);
    RpStatus st = rp_grammar_open(&g);
    if (st == RP_OK) st = of_expression(g, rp_rx_texts(&g->rx, sorted, n), RP_OK, out);
    free(sorted);
    return st;
}
