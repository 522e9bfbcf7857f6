#include "grammar/grammar.h"

#include "base/argument.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GRAMMAR_NODES = 1 << 21 };

static uint32_t add_node(RpGrammar *g, NodeKind kind, uint32_t a, uint32_t next) {
    if (g->status != RP_OK) return NODE_NEVER;
    if (g->n_nodes >= MAX_GRAMMAR_NODES)
        g->status = rp_fail(RP_E_UNSUPPORTED, "grammar: more than %d nodes", MAX_GRAMMAR_NODES);
    else
        g->status = RP_GROW(g->nodes, g->node_room, g->n_nodes + 1);
    if (g->status != RP_OK) return NODE_NEVER;
    g->nodes[g->n_nodes] = (GrammarNode){.kind = (uint8_t)kind, .a = a, .next = next};
    return (uint32_t)g->n_nodes++;
}

RpStatus rp_grammar_open(RpGrammar **out) {
    RpGrammar *g = calloc(1, sizeof *g);
    *out         = NULL;
    if (g == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    RpStatus st = rp_rx_open(&g->rx);
    if (st == RP_OK) {
        (void)add_node(g, NODE_FAIL, 0, 0);
        st = g->status;
    }
    if (st != RP_OK) {
        rp_grammar_free(g);
        return st;
    }
    *out = g;
    return RP_OK;
}

void rp_grammar_free(RpGrammar *g) {
    if (g == NULL) return;
    rp_rx_close(&g->rx);
    free(g->nodes);
    free(g->rules);
    free(g->lexemes);
    rp_table_free(&g->lexeme_table);
    if (g->has_lexer) rp_lexer_close(&g->lexer);
    for (size_t i = 0; i < g->n_notes; i++) free(g->notes[i]);
    free(g->notes);
    free(g->tokens);
    for (size_t i = 0; g->masks != NULL && i < MASK_CACHE; i++) {
        free(g->masks[i].bits);
        free(g->masks[i].ends);
    }
    free(g->masks);
    if (g->has_lock) pthread_mutex_destroy(&g->lock);
    free(g);
}

uint32_t rp_grammar_rule(RpGrammar *g) {
    if (g->status == RP_OK) g->status = RP_GROW(g->rules, g->rule_room, g->n_rules + 1);
    if (g->status != RP_OK) return 0;
    g->rules[g->n_rules] = (GrammarRule){.start = NODE_NEVER};
    return (uint32_t)g->n_rules++;
}

uint32_t rp_grammar_end(RpGrammar *g, uint32_t rule) { return add_node(g, NODE_END, rule, 0); }

void rp_grammar_define(RpGrammar *g, uint32_t rule, uint32_t start) {
    if (g->status != RP_OK) return;
    g->rules[rule].start   = start;
    g->rules[rule].defined = true;
}

/* The number of a lexeme; equal expressions are one. */
static uint32_t lexeme_of(RpGrammar *g, Rx e) {
    g->status = rp_table_reserve(&g->lexeme_table);
    if (g->status != RP_OK) return 0;
    const uint32_t h  = rp_mix(1, e);
    size_t         at = h & g->lexeme_table.mask;
    for (; g->lexeme_table.slots[at] != 0; at = (at + 1) & g->lexeme_table.mask)
        if (g->lexemes[g->lexeme_table.slots[at] - 1] == e) return g->lexeme_table.slots[at] - 1;
    g->status = RP_GROW(g->lexemes, g->lexeme_room, g->n_lexemes + 1);
    if (g->status != RP_OK) return 0;
    g->lexemes[g->n_lexemes] = e;
    rp_table_put(&g->lexeme_table, at, h);
    return (uint32_t)g->n_lexemes++;
}

void rp_grammar_cut(RpGrammar *g, size_t n_nodes, size_t n_rules, size_t n_lexemes) {
    g->n_nodes   = n_nodes;
    g->n_rules   = n_rules;
    g->n_lexemes = 0;
    rp_table_clear(&g->lexeme_table);
    for (size_t i = 0; i < n_lexemes && g->status == RP_OK; i++) (void)lexeme_of(g, g->lexemes[i]);
}

uint32_t rp_grammar_lexeme(RpGrammar *g, Rx e, uint32_t next) {
    if (g->status == RP_OK) g->status = g->rx.status;
    if (g->status != RP_OK || e == RX_NONE || next == NODE_NEVER) return NODE_NEVER;
    const bool nullable = rp_rx_node(&g->rx, e)->nullable;
    const Rx   visible  = rp_rx_not_empty(&g->rx, e);
    if (visible == RX_NONE) return next;
    const uint32_t lexeme = lexeme_of(g, visible), node = add_node(g, NODE_LEXEME, lexeme, next);
    return nullable ? rp_grammar_choice(g, node, next) : node;
}

uint32_t rp_grammar_call(RpGrammar *g, uint32_t rule, uint32_t next) {
    return next == NODE_NEVER ? NODE_NEVER : add_node(g, NODE_CALL, rule, next);
}

uint32_t rp_grammar_choice(RpGrammar *g, uint32_t a, uint32_t b) { return add_node(g, NODE_CHOICE, a, b); }

void rp_grammar_set_first(RpGrammar *g, uint32_t choice, uint32_t a) {
    if (g->status == RP_OK) g->nodes[choice].a = a;
}

RpStatus rp_grammar_note(RpGrammar *g, const char *format, ...) {
    char    text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < g->n_notes; i++)
        if (strcmp(g->notes[i], text) == 0) return RP_OK;
    RP_TRY(RP_GROW(g->notes, g->note_room, g->n_notes + 1));
    g->notes[g->n_notes] = strdup(text);
    if (g->notes[g->n_notes] == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    g->n_notes++;
    return RP_OK;
}

const char *rp_grammar_note_at(const RpGrammar *g, size_t i) { return g != NULL && i < g->n_notes ? g->notes[i] : ""; }

size_t rp_grammar_n_notes(const RpGrammar *g) { return g != NULL ? g->n_notes : 0; }

/* True if the end of the rule can be reached from the node: by some text, or with `empty` by the empty one. */
static bool reaches(const RpGrammar *g, const bool *known, const GrammarNode *n, bool empty) {
    switch ((NodeKind)n->kind) {
    case NODE_FAIL:
        return false;
    case NODE_END:
        return true;
    case NODE_LEXEME:
        return !empty && known[n->next];
    case NODE_CALL:
        return known[n->next] && g->rules[n->a].defined && known[g->rules[n->a].start];
    case NODE_CHOICE:
        return known[n->a] || known[n->next];
    }
    return false;
}

/* Successors mostly have lower numbers, so that one pass forward finds almost all. */
static void close_reach(const RpGrammar *g, bool *known, bool empty) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < g->n_nodes; i++)
            if (!known[i] && reaches(g, known, &g->nodes[i], empty)) known[i] = changed = true;
    }
}

static RpStatus analyse(RpGrammar *g, uint32_t start) {
    bool *known = calloc(2 * g->n_nodes, sizeof *known);
    if (known == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    close_reach(g, known, false);
    close_reach(g, known + g->n_nodes, true);
    for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i].productive = known[i];
    for (size_t r = 0; r < g->n_rules; r++) g->rules[r].nullable = known[g->n_nodes + g->rules[r].start];
    free(known);
    if (!g->nodes[g->rules[start].start].productive) return rp_fail(RP_E_ARG, "grammar: no text satisfies it");
    return RP_OK;
}

static RpStatus finish(RpGrammar *g, uint32_t start, RpStatus st) {
    RP_TRY(st);
    RP_TRY(g->status);
    RP_TRY(g->rx.status);
    RP_TRY(rp_rx_classes(&g->rx));
    /* a lexeme without a text, such as an intersection of what excludes each other, is a node that nothing passes */
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == NODE_LEXEME && !rp_rx_alive(&g->rx, g->lexemes[g->nodes[i].a]))
            g->nodes[i].kind = NODE_FAIL;
    RP_TRY(g->rx.status);
    RP_TRY(analyse(g, start));
    g->has_lexer = true;
    RP_TRY(rp_lexer_open(&g->lexer, &g->rx, g->lexemes));
    g->masks = calloc(MASK_CACHE, sizeof *g->masks);
    if (g->masks == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    if (pthread_mutex_init(&g->lock, NULL) != 0) return rp_fail(RP_E_NOMEM, "out of memory for a lock of a grammar");
    g->has_lock = true;
    g->start    = start;
    return RP_OK;
}

RpStatus rp_grammar_finish(RpGrammar *g, uint32_t start, RpStatus st, RpGrammar **out) {
    st = finish(g, start, st);
    if (st != RP_OK) {
        rp_grammar_free(g);
        g = NULL;
    }
    *out = g;
    return st;
}
