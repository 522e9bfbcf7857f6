#include "grammar/lexer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STATES = 1 << 18, MAX_TRANSITIONS = 1 << 25 };

static RpStatus add_state(Lexer *l, const LexPair *pairs, size_t n, uint32_t *state);

RpStatus rp_lexer_open(Lexer *l, RxPool *rx, Rx *lexemes) {
    uint32_t dead;
    *l = (Lexer){.rx = rx, .lexemes = lexemes};
    RP_TRY(RP_GROW(l->accepts, l->accept_room, 1));
    l->accepts[l->n_accepts++] = 0;
    return add_state(l, NULL, 0, &dead);
}

void rp_lexer_close(Lexer *l) {
    free(l->states);
    rp_table_free(&l->table);
    free(l->next);
    free(l->pairs);
    free(l->accepts);
}

/* The list of the lexemes whose rest may be empty. Lists of states that follow each other are often equal: the latest
 * are compared. */
static RpStatus accepts_of(Lexer *l, const LexPair *pairs, size_t n, uint32_t *list) {
    const size_t at = l->n_accepts;
    uint32_t     k  = 0;
    *list           = 0;
    RP_TRY(RP_GROW(l->accepts, l->accept_room, at + 1 + n));
    for (size_t i = 0; i < n; i++)
        if (rp_rx_node(l->rx, pairs[i].rest)->nullable) l->accepts[at + 1 + k++] = pairs[i].lexeme;
    if (k == 0) return RP_OK;
    l->accepts[at] = k;
    for (size_t old = 1; old < at; old += l->accepts[old] + 1)
        if (l->accepts[old] == k && memcmp(l->accepts + old, l->accepts + at, (k + 1) * sizeof(uint32_t)) == 0) {
            *list = (uint32_t)old;
            return RP_OK;
        }
    l->n_accepts = at + 1 + k;
    *list        = (uint32_t)at;
    return RP_OK;
}

/* The most safe characters that a repetition takes whatever they are, also where finitely many texts are left out of
 * one without end: some longer text always remains. */
static uint32_t of_repetition(const RxPool *p, const RxNode *n) {
    uint32_t most = RX_NO_LIMIT;
    bool     any  = false;
    if (n->kind == RX_KIND_REPEAT) return rp_rx_node(p, n->a)->any_char ? n->hi : 0;
    if (n->kind != RX_KIND_AND) return 0;
    for (uint32_t i = 0; i < n->b; i++) {
        const RxNode *x = rp_rx_node(p, p->lists[n->a + i]);
        if (x->kind == RX_KIND_NOT && rp_rx_node(p, x->a)->is_finite) continue;
        if (x->kind != RX_KIND_REPEAT || x->hi != RX_NO_LIMIT || !rp_rx_node(p, x->a)->any_char) most = 0;
        any = true;
    }
    return any ? most : 0;
}

/* The same of the rest of a lexeme: the head of a sequence decides. */
static uint32_t any_chars(const RxPool *p, Rx rest) {
    const RxNode *n = rp_rx_node(p, rest);
    if (n->kind == RX_KIND_ALT) {
        uint32_t most = 0;
        for (uint32_t i = 0; i < n->b; i++) {
            const uint32_t of_one = any_chars(p, p->lists[n->a + i]);
            if (of_one > most) most = of_one;
        }
        return most;
    }
    /* what stands behind a boolean head may be boolean too, but has a text: the head is not the whole */
    if (n->kind == RX_KIND_CAT && !rp_rx_node(p, n->b)->is_boolean) n = rp_rx_node(p, n->a);
    return of_repetition(p, n);
}

static RpStatus add_state(Lexer *l, const LexPair *pairs, size_t n, uint32_t *state) {
    uint32_t h = (uint32_t)n;
    for (size_t i = 0; i < n; i++) h = rp_mix(rp_mix(h, pairs[i].lexeme), pairs[i].rest);
    RP_TRY(rp_table_reserve(&l->table));
    size_t at = h & l->table.mask;
    for (; l->table.slots[at] != 0; at = (at + 1) & l->table.mask) {
        const uint32_t  s = l->table.slots[at] - 1;
        const LexState *x = &l->states[s];
        if (l->table.hashes[s] == h && x->n_pairs == n &&
            (n == 0 || memcmp(l->pairs + x->pairs, pairs, n * sizeof *pairs) == 0)) {
            *state = s;
            return RP_OK;
        }
    }
    const size_t k = l->table.n, classes = (size_t)l->rx->n_classes;
    if (k >= MAX_STATES || k * classes >= MAX_TRANSITIONS)
        return rp_fail(RP_E_UNSUPPORTED, "grammar: the lexer needs more than %zu states", k);
    LexState s = {.pairs = (uint32_t)l->n_pairs, .n_pairs = (uint32_t)n};
    RP_TRY(RP_GROW(l->states, l->state_room, k + 1));
    RP_TRY(RP_GROW(l->next, l->next_room, (k + 1) * classes));
    RP_TRY(RP_GROW(l->pairs, l->pair_room, l->n_pairs + n));
    RP_TRY(accepts_of(l, pairs, n, &s.accepts));
    s.ends = true;
    for (size_t i = 0; i < n; i++) {
        s.ends &= pairs[i].rest == RX_EMPTY_TEXT;
        const uint32_t any = any_chars(l->rx, pairs[i].rest);
        if (any > s.any_chars) s.any_chars = any;
    }
    if (n > 0) memcpy(l->pairs + l->n_pairs, pairs, n * sizeof *pairs);
    l->n_pairs += n;
    l->states[k] = s;
    for (size_t c = 0; c < classes; c++) l->next[k * classes + c] = n == 0 ? LEX_DEAD : LEX_UNKNOWN;
    rp_table_put(&l->table, at, h);
    *state = (uint32_t)k;
    return RP_OK;
}

/* The pairs of a state in the making lie behind those of all states. */
static RpStatus add_built(Lexer *l, size_t n, uint32_t *state) {
    /* add_state copies them to where they lie: the same place */
    RP_TRY(RP_GROW(l->pairs, l->pair_room, l->n_pairs + 2 * n + 1));
    LexPair *copy = l->pairs + l->n_pairs + n;
    if (n > 0) memmove(copy, l->pairs + l->n_pairs, n * sizeof *copy);
    return add_state(l, copy, n, state);
}

RpStatus rp_lexer_start(Lexer *l, const uint32_t *lexemes, size_t n, uint32_t *state) {
    RP_TRY(RP_GROW(l->pairs, l->pair_room, l->n_pairs + n));
    for (size_t i = 0; i < n; i++) l->pairs[l->n_pairs + i] = (LexPair){lexemes[i], l->lexemes[lexemes[i]]};
    return add_built(l, n, state);
}

RpStatus rp_lexer_compute(Lexer *l, uint32_t state, int class, uint32_t *next) {
    const LexState s = l->states[state];
    size_t         n = 0;
    RP_TRY(RP_GROW(l->pairs, l->pair_room, l->n_pairs + s.n_pairs));
    for (uint32_t i = 0; i < s.n_pairs; i++) {
        const LexPair from = l->pairs[s.pairs + i];
        const Rx      rest = rp_rx_derive(l->rx, from.rest, class);
        if (rest != RX_NONE && rp_rx_alive(l->rx, rest)) l->pairs[l->n_pairs + n++] = (LexPair){from.lexeme, rest};
        RP_TRY(l->rx->status);
    }
    RP_TRY(add_built(l, n, next));
    l->next[(size_t)state * (size_t)l->rx->n_classes + (size_t) class] = *next;
    return RP_OK;
}
