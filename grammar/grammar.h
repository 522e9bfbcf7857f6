/* grammar.h - a compiled grammar: rules over lexemes, and the lexer's automaton, which grows while it is used.
 *
 *     rule     an automaton of nodes: a lexeme, a call of a rule, a choice of two nodes, the end of the rule
 *     lexeme   an expression over bytes (rx.h) that never matches the empty text
 *
 * Nodes are made from the end of a rule to its beginning: each maker gets the node that follows. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "grammar/lexer.h"
#include "reprise/grammar.h"

#include <pthread.h>

typedef enum NodeKind { NODE_FAIL, NODE_END, NODE_LEXEME, NODE_CALL, NODE_CHOICE } NodeKind;

typedef struct GrammarNode {
    uint8_t  kind;
    bool     productive; /* some text leads from here to the end of the rule */
    uint32_t a;          /* lexeme, rule, or first node of a choice; the rule that ends */
    uint32_t next;       /* second node of a choice */
} GrammarNode;

typedef struct GrammarRule {
    uint32_t start;
    bool     nullable, defined;
} GrammarRule;

/* Masks of states of the lexer, for one vocabulary: tokens that lie within lexemes of a state, and where in the trie
 * lexemes end. */
typedef struct StateMask {
    uint64_t  vocabulary; /* its number; 0: the entry is free */
    uint32_t  state;
    uint32_t *bits;
    size_t    bits_room;
    struct TrieEnd {
        uint32_t trie, node, state;
    } * ends; /* in the order of the tries */
    size_t n_ends, end_room;
} StateMask;

enum { MASK_CACHE = 512 }; /* entries; direct mapped */

struct RpGrammar {
    RxPool          rx;
    GrammarNode    *nodes;
    size_t          n_nodes, node_room;
    GrammarRule    *rules;
    size_t          n_rules, rule_room;
    Rx             *lexemes;
    size_t          n_lexemes, lexeme_room;
    IndexTable      lexeme_table;
    Lexer           lexer;
    bool            has_lexer, has_lock;
    uint32_t        start; /* rule */
    char          **notes;
    size_t          n_notes, note_room;
    int32_t        *tokens; /* that count only as tokens (tokens.h) */
    size_t          n_tokens, token_room;
    StateMask      *masks;
    RpStatus        status; /* of making: the first error */
    pthread_mutex_t lock;   /* rx, lexer and masks, after it is finished */
};

enum { NODE_NEVER = 0 }; /* the node that no text passes */

RP_NODISCARD RpStatus rp_grammar_open(RpGrammar **out);

/* After an error these return NODE_NEVER or 0, and rp_grammar_finish returns the error. */
uint32_t rp_grammar_rule(RpGrammar *g);               /* a rule without nodes */
uint32_t rp_grammar_end(RpGrammar *g, uint32_t rule); /* the end of it */
void     rp_grammar_define(RpGrammar *g, uint32_t rule, uint32_t start);
uint32_t rp_grammar_lexeme(RpGrammar *g, Rx e, uint32_t next); /* e may be nullable, or RX_NONE */
uint32_t rp_grammar_call(RpGrammar *g, uint32_t rule, uint32_t next);
uint32_t rp_grammar_choice(RpGrammar *g, uint32_t a, uint32_t b);
void     rp_grammar_set_first(RpGrammar *g, uint32_t choice, uint32_t a); /* closes a loop */

/* Takes back nodes, rules and lexemes beyond these numbers; expressions stay. Nothing that is kept may refer to
 * them. */
void rp_grammar_cut(RpGrammar *g, size_t n_nodes, size_t n_rules, size_t n_lexemes);

/* The rule of a GBNF grammar of n bytes (rp_grammar_gbnf). The names of its rules are its own. */
RP_NODISCARD RpStatus rp_gbnf_rule(RpGrammar *g, const char *text, size_t n, uint32_t *rule);

/* Keeps a note, formatted as by printf. */
RP_NODISCARD RpStatus rp_grammar_note(RpGrammar *g, const char *format, ...) RP_PRINTF(2, 3);

/* Checks and completes the grammar, with `start` as its first rule. Frees it after an error, also one before. */
RP_NODISCARD RpStatus rp_grammar_finish(RpGrammar *g, uint32_t start, RpStatus st, RpGrammar **out);

#endif
