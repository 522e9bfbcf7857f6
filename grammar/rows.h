/* rows.h - the rows of an Earley parser (Earley, CACM 1970) over lexemes.
 *
 *     row      what may come at a place between two lexemes: items, and the lexer's state before the next byte
 *     item     a node of a rule and the row in which the rule began
 *
 * Rows with equal items are one row, wherever in the text they are. So a row never changes, going back needs no undo,
 * and a list of a thousand elements has the rows of a list of two. The rule after a nullable one is entered at once
 * (Aycock, Horspool, Computer Journal 2002). */
#ifndef GRAMMAR_ROWS_H
#define GRAMMAR_ROWS_H

#include "grammar/grammar.h"

static const uint32_t ROW_SELF = UINT32_MAX; /* as origin: the row that the item is in */

typedef struct Item {
    uint32_t node, origin;
} Item;

typedef struct Row {
    uint32_t items, n_items;
    uint32_t state;    /* of the lexer; LEX_DEAD: nothing can follow */
    bool     complete; /* the text may end here */
} Row;

/* One lexeme list that ended in a row. */
typedef struct RowEnd {
    uint32_t row, accepts;
} RowEnd;

typedef struct Rows {
    RpGrammar *g; /* its lock is held */
    Row       *rows;
    size_t     row_room;
    IndexTable table;
    Item      *items;
    size_t     n_items, item_room;
    Item      *work; /* stack of items to be closed over */
    size_t     n_work, work_room;
    uint32_t  *seen; /* [seen_mask + 1]: stamp of this row in the making, and the item */
    size_t     seen_mask, n_seen;
    uint32_t  *lexemes;
    size_t     n_lexemes, lexeme_room;
    struct RowMemo {
        uint32_t row, accepts, next;
    } memo[64]; /* results of rp_rows_advance for one end */
    uint64_t steps, step_limit;
    bool     complete; /* of the row in the making */
} Rows;

RP_NODISCARD RpStatus rp_rows_open(Rows *r, RpGrammar *g); /* row 0 is the beginning of the text */
void                  rp_rows_close(Rows *r);

/* The row behind lexemes that ended at one place of the text. */
RP_NODISCARD RpStatus rp_rows_advance(Rows *r, const RowEnd *ends, size_t n, uint32_t *row);

#endif
