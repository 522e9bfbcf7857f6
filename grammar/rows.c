#include "grammar/rows.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 22, FIRST_SEEN = 256 };

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the rows of a grammar"); }

/* seen[] holds pairs (node + 1, origin) in open addressing; it is emptied for each row. */
static RpStatus grow_seen(Rows *r) {
    const size_t n    = r->seen == NULL ? FIRST_SEEN : (r->seen_mask + 1) * 2;
    uint32_t    *seen = calloc(2 * n, sizeof *seen);
    if (seen == NULL) return no_memory();
    for (size_t i = 0; r->seen != NULL && i <= r->seen_mask; i++) {
        if (r->seen[2 * i] == 0) continue;
        size_t at = rp_mix(r->seen[2 * i], r->seen[2 * i + 1]) & (n - 1);
        while (seen[2 * at] != 0) at = (at + 1) & (n - 1);
        seen[2 * at] = r->seen[2 * i], seen[2 * at + 1] = r->seen[2 * i + 1];
    }
    free(r->seen);
    r->seen      = seen;
    r->seen_mask = n - 1;
    return RP_OK;
}

/* *is_new says whether the item was not in the row yet. */
static RpStatus see(Rows *r, Item item, bool *is_new) {
    if (r->seen == NULL || (r->n_seen + 1) * 2 > r->seen_mask) RP_TRY(grow_seen(r));
    size_t at = rp_mix(item.node + 1, item.origin) & r->seen_mask;
    for (; r->seen[2 * at] != 0; at = (at + 1) & r->seen_mask)
        if (r->seen[2 * at] == item.node + 1 && r->seen[2 * at + 1] == item.origin) {
            *is_new = false;
            return RP_OK;
        }
    r->seen[2 * at] = item.node + 1, r->seen[2 * at + 1] = item.origin;
    r->n_seen++;
    *is_new = true;
    return RP_OK;
}

static RpStatus push(Rows *r, uint32_t node, uint32_t origin) {
    if (!r->g->nodes[node].productive) return RP_OK;
    RP_TRY(RP_GROW(r->work, r->work_room, r->n_work + 1));
    r->work[r->n_work++] = (Item){node, origin};
    return RP_OK;
}

/* A rule that began in row `origin` ends: the calls of it that are there go on. */
static RpStatus complete(Rows *r, uint32_t rule, uint32_t origin) {
    const Row row = r->rows[origin];
    for (uint32_t i = 0; i < row.n_items; i++) {
        const Item         item = r->items[row.items + i];
        const GrammarNode *n    = &r->g->nodes[item.node];
        if (n->kind == NODE_CALL && n->a == rule)
            RP_TRY(push(r, n->next, item.origin == ROW_SELF ? origin : item.origin));
    }
    r->steps += row.n_items;
    return RP_OK;
}

/* Adds an item to the row in the making, at items[n_items..], or what follows from it to the stack. */
static RpStatus close_item(Rows *r, size_t *n, Item item) {
    const GrammarNode node = r->g->nodes[item.node];
    switch ((NodeKind)node.kind) {
    case NODE_FAIL:
        return RP_OK;
    case NODE_CHOICE:
        RP_TRY(push(r, node.next, item.origin));
        return push(r, node.a, item.origin);
    case NODE_END:
        if (node.a == r->g->start && (item.origin == 0 || (item.origin == ROW_SELF && r->table.n == 0)))
            r->complete = true;
        return item.origin == ROW_SELF ? RP_OK : complete(r, node.a, item.origin);
    case NODE_CALL:
        if (r->g->rules[node.a].nullable) RP_TRY(push(r, node.next, item.origin));
        RP_TRY(push(r, r->g->rules[node.a].start, ROW_SELF));
        break;
    case NODE_LEXEME:
        break;
    }
    if (r->n_items + *n >= MAX_ITEMS)
        return rp_fail(RP_E_UNSUPPORTED, "grammar: the text is nested too deeply, or too ambiguous: more than %d items",
                       MAX_ITEMS);
    RP_TRY(RP_GROW(r->items, r->item_room, r->n_items + *n + 1));
    r->items[r->n_items + (*n)++] = item;
    return RP_OK;
}

static int rising(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The lexer's state before the lexemes of the row in the making. */
static RpStatus lexer_state(Rows *r, size_t n, uint32_t *state) {
    r->n_lexemes = 0;
    for (size_t i = 0; i < n; i++) {
        const GrammarNode *node = &r->g->nodes[r->items[r->n_items + i].node];
        if (node->kind != NODE_LEXEME) continue;
        RP_TRY(RP_GROW(r->lexemes, r->lexeme_room, r->n_lexemes + 1));
        r->lexemes[r->n_lexemes++] = node->a;
    }
    if (r->n_lexemes > 1) qsort(r->lexemes, r->n_lexemes, sizeof *r->lexemes, rising);
    size_t kept = 0;
    for (size_t i = 0; i < r->n_lexemes; i++)
        if (kept == 0 || r->lexemes[kept - 1] != r->lexemes[i]) r->lexemes[kept++] = r->lexemes[i];
    return rp_lexer_start(&r->g->lexer, r->lexemes, kept, state);
}

/* The row of the items on the stack and all that follow from them: one that is there already, or a new one. */
static RpStatus make_row(Rows *r, uint32_t *row) {
    size_t n = 0;
    if (r->n_seen > 0) memset(r->seen, 0, 2 * (r->seen_mask + 1) * sizeof *r->seen);
    r->n_seen   = 0;
    r->complete = false;
    while (r->n_work > 0) {
        const Item item = r->work[--r->n_work];
        bool       is_new;
        RP_TRY(see(r, item, &is_new));
        if (is_new) RP_TRY(close_item(r, &n, item));
        if (++r->steps > r->step_limit)
            return rp_fail(RP_E_UNSUPPORTED, "grammar: a token takes more than %llu steps",
                           (unsigned long long)r->step_limit);
    }
    uint32_t h = r->complete;
    for (size_t i = 0; i < n; i++)
        h = rp_mix(rp_mix(h, r->items[r->n_items + i].node), r->items[r->n_items + i].origin);
    RP_TRY(rp_table_reserve(&r->table));
    size_t at = h & r->table.mask;
    for (; r->table.slots[at] != 0; at = (at + 1) & r->table.mask) {
        const uint32_t k   = r->table.slots[at] - 1;
        const Row     *old = &r->rows[k];
        if (r->table.hashes[k] == h && old->n_items == n && old->complete == r->complete &&
            (n == 0 || memcmp(r->items + old->items, r->items + r->n_items, n * sizeof(Item)) == 0)) {
            *row = k;
            return RP_OK;
        }
    }
    Row made = {.items = (uint32_t)r->n_items, .n_items = (uint32_t)n, .complete = r->complete};
    RP_TRY(lexer_state(r, n, &made.state));
    RP_TRY(RP_GROW(r->rows, r->row_room, r->table.n + 1));
    *row          = (uint32_t)r->table.n;
    r->rows[*row] = made;
    r->n_items += n;
    rp_table_put(&r->table, at, h);
    return RP_OK;
}

RpStatus rp_rows_open(Rows *r, RpGrammar *g) {
    uint32_t first;
    *r = (Rows){.g = g, .step_limit = UINT64_MAX};
    for (size_t i = 0; i < sizeof r->memo / sizeof r->memo[0]; i++) r->memo[i].row = ROW_SELF;
    RP_TRY(push(r, g->rules[g->start].start, ROW_SELF));
    return make_row(r, &first);
}

void rp_rows_close(Rows *r) {
    free(r->rows);
    rp_table_free(&r->table);
    free(r->items);
    free(r->work);
    free(r->seen);
    free(r->lexemes);
}

static bool has_lexeme(const uint32_t *list, uint32_t lexeme) {
    for (uint32_t i = 1; i <= list[0]; i++)
        if (list[i] == lexeme) return true;
    return false;
}

RpStatus rp_rows_advance(Rows *r, const RowEnd *ends, size_t n, uint32_t *row) {
    struct RowMemo *memo = &r->memo[rp_mix(ends[0].row, ends[0].accepts) % (sizeof r->memo / sizeof r->memo[0])];
    if (n == 1 && memo->row == ends[0].row && memo->accepts == ends[0].accepts) {
        *row = memo->next;
        return RP_OK;
    }
    r->n_work = 0;
    for (size_t e = n; e-- > 0;) {
        const Row       from = r->rows[ends[e].row];
        const uint32_t *list = r->g->lexer.accepts + ends[e].accepts;
        for (uint32_t i = from.n_items; i-- > 0;) {
            const Item         item = r->items[from.items + i];
            const GrammarNode *node = &r->g->nodes[item.node];
            if (node->kind == NODE_LEXEME && has_lexeme(list, node->a))
                RP_TRY(push(r, node->next, item.origin == ROW_SELF ? ends[e].row : item.origin));
        }
    }
    RP_TRY(make_row(r, row));
    if (n == 1) *memo = (struct RowMemo){ends[0].row, ends[0].accepts, *row};
    return RP_OK;
}
