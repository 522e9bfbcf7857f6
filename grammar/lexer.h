/* lexer.h - a deterministic automaton over bytes, made as texts need it. A state is a set of lexemes that may be under
 * way, each with the expression that its rest has to match. */
#ifndef GRAMMAR_LEXER_H
#define GRAMMAR_LEXER_H

#include "grammar/rx.h"

enum { LEX_DEAD = 0 }; /* the state without lexemes */

static const uint32_t LEX_UNKNOWN = UINT32_MAX; /* a transition that was not needed yet */

typedef struct LexPair {
    uint32_t lexeme;
    Rx       rest;
} LexPair;

typedef struct LexState {
    uint32_t pairs, n_pairs; /* pairs[pairs .. pairs + n_pairs) */
    uint32_t accepts;        /* a list of the lexemes that may end here; 0: none */
    bool     ends;           /* nothing can follow within the lexemes */
    uint32_t any_chars;      /* safe characters of a JSON string that may follow whatever they are; RX_NO_LIMIT: any */
} LexState;

typedef struct Lexer {
    RxPool    *rx;
    Rx        *lexemes; /* borrowed */
    LexState  *states;
    size_t     state_room;
    IndexTable table;
    uint32_t  *next; /* [states][n_classes] */
    size_t     next_room;
    LexPair   *pairs;
    size_t     n_pairs, pair_room;
    uint32_t  *accepts; /* lists: n, then n lexemes; a list is named by its place */
    size_t     n_accepts, accept_room;
} Lexer;

RP_NODISCARD RpStatus rp_lexer_open(Lexer *l, RxPool *rx, Rx *lexemes);
void                  rp_lexer_close(Lexer *l);

/* The state before the first byte of any of the lexemes, in rising order. */
RP_NODISCARD RpStatus rp_lexer_start(Lexer *l, const uint32_t *lexemes, size_t n, uint32_t *state);

/* Computes the transition from `state`, which is not LEX_DEAD. */
RP_NODISCARD RpStatus rp_lexer_compute(Lexer *l, uint32_t state, int class, uint32_t *next);

RP_NODISCARD static inline RpStatus rp_lexer_next(Lexer *l, uint32_t state, unsigned char byte, uint32_t *next) {
    const int class = l->rx->class_of[byte];
    *next           = l->next[(size_t)state * (size_t)l->rx->n_classes + (size_t) class];
    return *next != LEX_UNKNOWN ? RP_OK : rp_lexer_compute(l, state, class, next);
}

#endif
