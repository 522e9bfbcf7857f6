/* Grammars of parts, one behind the other: texts, tokens, values by JSON Schemas, GBNF, regular expressions, groups. */
#include "grammar/grammar.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema.h"
#include "grammar/tokens.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 64 };

/* Parts of the same schema or GBNF share one rule. */
typedef struct Sequence {
    RpGrammar           *g;
    const RpGrammarPart *parts;
    uint32_t            *rules; /* [n]: of a schema or GBNF, plus 1; 0: not compiled yet */
    size_t               at, n;
    int                  depth;
} Sequence;

static RpStatus rule_of(Sequence *s, size_t i, uint32_t *rule) {
    const RpGrammarPart *p = &s->parts[i];
    for (size_t k = 0; k < s->n; k++) {
        const RpGrammarPart *q = &s->parts[k];
        if (s->rules[k] == 0 || q->kind != p->kind || q->flags != p->flags || q->n != p->n ||
            memcmp(q->text, p->text, p->n) != 0)
            continue;
        *rule = s->rules[k] - 1;
        return RP_OK;
    }
    RP_TRY(p->kind == RP_PART_GBNF ? rp_gbnf_rule(s->g, p->text, p->n, rule)
                                   : rp_schema_rule(s->g, p->text, p->n, p->flags, rule));
    s->rules[i] = *rule + 1;
    return RP_OK;
}

static RpStatus keep_token(RpGrammar *g, int32_t token) {
    for (size_t i = 0; i < g->n_tokens; i++)
        if (g->tokens[i] == token) return RP_OK;
    RP_TRY(RP_GROW(g->tokens, g->token_room, g->n_tokens + 1));
    g->tokens[g->n_tokens++] = token;
    return RP_OK;
}

/* The node of part i before `next`. */
static RpStatus part(Sequence *s, size_t i, uint32_t next, uint32_t *node) {
    const RpGrammarPart *p = &s->parts[i];
    RxPool              *x = &s->g->rx;
    char                 bytes[TOKEN_TEXT];
    uint32_t             rule;
    Rx                   e = RX_NONE;
    switch (p->kind) {
    case RP_PART_TEXT:
        *node = rp_grammar_lexeme(s->g, rp_rx_text(x, p->text, p->n), next);
        return RP_OK;
    case RP_PART_TOKEN:
        if (p->token < 0 || p->token >= TOKEN_LIMIT) return rp_fail(RP_E_ARG, "grammar: token %d", p->token);
        RP_TRY(keep_token(s->g, p->token));
        rp_token_text(p->token, bytes);
        *node = rp_grammar_lexeme(s->g, rp_rx_text(x, bytes, sizeof bytes), next);
        return RP_OK;
    case RP_PART_REGEX:
        RP_TRY(rp_pattern(x, p->text, p->n, 0, &e));
        *node = rp_grammar_lexeme(s->g, e, next);
        return RP_OK;
    case RP_PART_SCHEMA:
    case RP_PART_GBNF:
        RP_TRY(rule_of(s, i, &rule));
        *node = rp_grammar_call(s->g, rule, next);
        return RP_OK;
    default:
        return rp_fail(RP_E_ARG, "grammar: part %zu is of kind %d", i, (int)p->kind);
    }
}

static RpStatus group(Sequence *s, uint32_t next, uint32_t *node);

/* A group that repeats is a rule:  r = group | group separator r */
static RpStatus repeated(Sequence *s, const RpGrammarPart *p, uint32_t next, uint32_t *node) {
    const uint32_t rule = rp_grammar_rule(s->g), end = rp_grammar_end(s->g, rule);
    uint32_t       again = rp_grammar_call(s->g, rule, end), first;
    Rx             e     = RX_NONE;
    if (p->n > 0) RP_TRY(rp_pattern(&s->g->rx, p->text, p->n, 0, &e));
    if (p->n > 0) again = rp_grammar_lexeme(s->g, e, again);
    RP_TRY(group(s, rp_grammar_choice(s->g, end, again), &first));
    rp_grammar_define(s->g, rule, first);
    *node = rp_grammar_call(s->g, rule, next);
    return RP_OK;
}

/* The alternatives that end at s->at, back to the begin of the group, which is moved over. */
static RpStatus group(Sequence *s, uint32_t next, uint32_t *node) {
    uint32_t one = next, all = NODE_NEVER;
    bool     open = false;
    if (++s->depth > MAX_GROUPS) return rp_fail(RP_E_ARG, "grammar: groups nested more than %d deep", MAX_GROUPS);
    while (s->at > 0 && !open) {
        const RpGrammarPart *p = &s->parts[--s->at];
        if (p->kind == RP_PART_CLOSE) {
            RP_TRY(group(s, one, &one));
        } else if (p->kind == RP_PART_REPEAT) {
            RP_TRY(repeated(s, p, one, &one));
        } else if (p->kind == RP_PART_OR) {
            all = rp_grammar_choice(s->g, one, all);
            one = next;
        } else if (p->kind == RP_PART_OPEN) {
            open = true;
        } else {
            RP_TRY(part(s, s->at, one, &one));
        }
    }
    s->depth--;
    if (open != (s->depth > 0)) return rp_fail(RP_E_ARG, "grammar: a group is not closed, or not opened");
    *node = all == NODE_NEVER ? one : rp_grammar_choice(s->g, one, all);
    return RP_OK;
}

RpStatus rp_grammar_parts(const RpGrammarPart *parts, size_t n, RpGrammar **out) {
    RP_OUT(out, "out");
    if (n > 0) RP_NOT_NULL(parts, "parts");
    for (size_t i = 0; i < n; i++)
        if (parts[i].n > 0) RP_NOT_NULL(parts[i].text, "text of a part");
    Sequence s = {.parts = parts, .n = n, .at = n};
    uint32_t start;
    RP_TRY(rp_grammar_open(&s.g));
    s.rules             = calloc(n + 1, sizeof *s.rules);
    const uint32_t rule = rp_grammar_rule(s.g);
    RpStatus       st   = s.rules != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    if (st == RP_OK) st = group(&s, rp_grammar_end(s.g, rule), &start);
    if (st == RP_OK) rp_grammar_define(s.g, rule, start);
    free(s.rules);
    return rp_grammar_finish(s.g, rule, st, out);
}
