#include "grammar/tokens.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 100 * 1000 * 1000, MAX_THREADS = 4096 };

void rp_matcher_lock(const RpMatcher *m) {
    pthread_mutex_lock(&m->g->lock);
    m->g->rx.status                              = RP_OK; /* memory that ran out once may be there again */
    m->g->rx.n_scratch                           = 0;
    ((RpMatcher *)(uintptr_t)m)->rows.steps      = 0;
    ((RpMatcher *)(uintptr_t)m)->rows.step_limit = MAX_STEPS;
}

void rp_matcher_unlock(const RpMatcher *m) { pthread_mutex_unlock(&m->g->lock); }

static RpStatus open_place(RpMatcher *m) {
    RP_TRY(RP_GROW(m->places, m->place_room, 64));
    RP_TRY(RP_GROW(m->threads, m->thread_room, 256));
    RP_TRY(RP_GROW(m->walk.threads, m->walk.room, 256));
    RP_TRY(rp_rows_open(&m->rows, m->g));
    const Row first = m->rows.rows[0];
    m->threads[0]   = (Thread){0, first.state};
    m->n_threads    = first.state != LEX_DEAD;
    m->places[0]    = (Place){0, (uint32_t)m->n_threads, first.complete, false};
    m->n_places     = 1;
    return RP_OK;
}

RpStatus rp_matcher_new(const RpGrammar *g, const RpGrammarVocab *v, RpMatcher **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(g, "g");
    RP_NOT_NULL(v, "v");
    RpMatcher *m = calloc(1, sizeof *m);
    if (m == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a matcher");
    m->g = (RpGrammar *)(uintptr_t)g; /* its automata grow under its lock */
    m->v = v;
    rp_matcher_lock(m);
    RpStatus st = open_place(m);
    if (st == RP_OK) st = rp_matcher_find_foreign(m);
    rp_matcher_unlock(m);
    if (st != RP_OK) {
        rp_matcher_free(m);
        return st;
    }
    *out = m;
    return RP_OK;
}

void rp_matcher_free(RpMatcher *m) {
    if (m == NULL) return;
    rp_rows_close(&m->rows);
    free(m->threads);
    free(m->places);
    free(m->ends);
    free(m->walk.threads);
    free(m->text);
    free(m->foreign);
    free(m);
}

int32_t rp_matcher_n_vocab(const RpMatcher *m) { return m != NULL ? m->v->n : 0; }

void rp_matcher_reset(RpMatcher *m) {
    if (m == NULL) return;
    m->n_places  = 1;
    m->n_threads = m->places[0].n_threads;
}

/* Threads refer to rows by their numbers. A copy has copies of the rows, threads and places, with the same numbers, so
 * the accepted text is not parsed again. */
RpStatus rp_matcher_copy(const RpMatcher *m, RpMatcher **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");
    RpMatcher *c;
    RP_TRY(rp_matcher_new(m->g, m->v, &c));
    const Rows *from = &m->rows;
    Rows       *to   = &c->rows;
    RpStatus    st   = RP_GROW(to->rows, to->row_room, from->table.n);
    if (st == RP_OK) st = RP_GROW(to->items, to->item_room, from->n_items);
    if (st == RP_OK) st = RP_GROW(c->threads, c->thread_room, m->n_threads);
    if (st == RP_OK) st = RP_GROW(c->places, c->place_room, m->n_places);
    while (st == RP_OK && to->table.n < from->table.n) {
        st = rp_table_reserve(&to->table);
        if (st != RP_OK) break;
        const uint32_t h  = from->table.hashes[to->table.n];
        size_t         at = h & to->table.mask;
        while (to->table.slots[at] != 0) at = (at + 1) & to->table.mask;
        to->rows[to->table.n] = from->rows[to->table.n];
        rp_table_put(&to->table, at, h);
    }
    if (st != RP_OK) {
        rp_matcher_free(c);
        return st;
    }
    if (from->n_items > 0) memcpy(to->items, from->items, from->n_items * sizeof *to->items);
    if (m->n_threads > 0) memcpy(c->threads, m->threads, m->n_threads * sizeof *c->threads);
    memcpy(c->places, m->places, m->n_places * sizeof *c->places);
    to->n_items  = from->n_items;
    c->n_threads = m->n_threads;
    c->n_places  = m->n_places;
    *out         = c;
    return RP_OK;
}

RpStatus rp_matcher_step(RpMatcher *m, const Thread *from, size_t n, unsigned char byte, Thread **to, size_t *n_to,
                         size_t *room, bool *complete) {
    size_t       n_ends = 0;
    const size_t first  = (size_t)(from - *to); /* `from` may lie in *to, which may move */
    const bool   inside = from >= *to && from < *to + *room;
    *complete           = false;
    m->rows.steps += n;
    if (m->rows.steps > m->rows.step_limit)
        return rp_fail(RP_E_UNSUPPORTED, "grammar: a token takes more than %d steps", MAX_STEPS);
    if (n >= MAX_THREADS)
        return rp_fail(RP_E_UNSUPPORTED, "grammar: the text is too ambiguous: more than %d lexemes under way",
                       MAX_THREADS);
    RP_TRY(RP_GROW(*to, *room, *n_to + n + 1));
    RP_TRY(RP_GROW(m->ends, m->end_room, n));
    for (size_t i = 0; i < n; i++) {
        const Thread t = inside ? (*to)[first + i] : from[i];
        uint32_t     next;
        RP_TRY(rp_lexer_next(&m->g->lexer, t.state, byte, &next));
        if (next == LEX_DEAD) continue;
        if (!m->g->lexer.states[next].ends) (*to)[(*n_to)++] = (Thread){t.row, next};
        const uint32_t accepts = m->g->lexer.states[next].accepts;
        if (accepts != 0) m->ends[n_ends++] = (RowEnd){t.row, accepts};
    }
    if (n_ends == 0) return RP_OK;
    uint32_t row;
    RP_TRY(rp_rows_advance(&m->rows, m->ends, n_ends, &row));
    *complete = m->rows.rows[row].complete;
    if (m->rows.rows[row].state != LEX_DEAD) (*to)[(*n_to)++] = (Thread){row, m->rows.rows[row].state};
    return RP_OK;
}

RpStatus rp_matcher_read(RpMatcher *m, const char *text, size_t n, bool *alive, bool *complete, size_t *first,
                         size_t *end) {
    const Place last = m->places[m->n_places - 1];
    size_t      from = 0, to = 0;
    *alive    = true;
    *complete = last.complete;
    RP_TRY(RP_GROW(m->walk.threads, m->walk.room, last.n_threads + (size_t)1));
    for (; to < last.n_threads; to++) m->walk.threads[to] = m->threads[last.threads + to];
    for (size_t i = 0; i < n; i++) {
        const size_t next = to;
        RP_TRY(rp_matcher_step(m, m->walk.threads + from, to - from, (unsigned char)text[i], &m->walk.threads, &to,
                               &m->walk.room, complete));
        if (to == next && (!*complete || i + 1 < n)) {
            *alive = false;
            return RP_OK;
        }
        from = next;
        if (from > ((size_t)1 << 16)) { /* a long text: what is behind is not needed */
            memmove(m->walk.threads, m->walk.threads + from, (to - from) * sizeof(Thread));
            to -= from;
            from = 0;
        }
    }
    *first = from;
    *end   = to;
    return RP_OK;
}

static RpStatus append(RpMatcher *m, const char *text, size_t n, bool *alive) {
    bool   complete;
    size_t first = 0, end = 0;
    RP_TRY(rp_matcher_read(m, text, n, alive, &complete, &first, &end));
    if (!*alive) return RP_OK;
    RP_TRY(RP_GROW(m->threads, m->thread_room, m->n_threads + (end - first)));
    RP_TRY(RP_GROW(m->places, m->place_room, m->n_places + 1));
    memcpy(m->threads + m->n_threads, m->walk.threads + first, (end - first) * sizeof(Thread));
    m->places[m->n_places++] = (Place){m->n_threads, (uint32_t)(end - first), complete, false};
    m->n_threads += end - first;
    return RP_OK;
}

RpStatus rp_matcher_accept_text(RpMatcher *m, const char *text, size_t n) {
    bool alive;
    RP_NOT_NULL(m, "m");
    if (n > 0) RP_NOT_NULL(text, "text");
    if (m->places[m->n_places - 1].ended) return rp_fail(RP_E_ARG, "grammar: the text has ended");
    rp_matcher_lock(m);
    const RpStatus st = append(m, text, n, &alive);
    rp_matcher_unlock(m);
    if (st == RP_OK && !alive) return rp_fail(RP_E_ARG, "grammar: the text of %zu bytes is not allowed here", n);
    return st;
}

RpStatus rp_matcher_accept(RpMatcher *m, int32_t token) {
    RP_NOT_NULL(m, "m");
    const RpGrammarVocab *v = m->v;
    if (token < 0 || token >= v->n)
        return rp_fail(RP_E_ARG, "grammar: token %d is outside of the vocabulary of %d", token, v->n);
    const Place  last  = m->places[m->n_places - 1];
    const size_t len   = v->offset[token + 1] - v->offset[token];
    bool         alive = false;
    RpStatus     st    = RP_OK;
    const bool   asked = rp_grammar_has_token(m->g, token);
    if (asked && !last.ended) {
        char text[TOKEN_TEXT];
        rp_token_text(token, text);
        rp_matcher_lock(m);
        st = append(m, text, sizeof text, &alive);
        rp_matcher_unlock(m);
        if (st != RP_OK || alive) return st;
    }
    if (v->is_end[token] && last.complete && !last.ended) {
        RP_TRY(RP_GROW(m->places, m->place_room, m->n_places + 1));
        m->places[m->n_places++] = (Place){m->n_threads, 0, true, true};
        return RP_OK;
    }
    if (!asked && !rp_matcher_is_foreign(m, token) && !v->is_end[token] && !last.ended && len > 0 &&
        len <= MAX_TOKEN_BYTES) {
        rp_matcher_lock(m);
        st = append(m, v->text + v->offset[token], len, &alive);
        rp_matcher_unlock(m);
    }
    if (st == RP_OK && !alive) return rp_fail(RP_E_ARG, "grammar: token %d is not allowed here", token);
    return st;
}

RpStatus rp_matcher_rollback(RpMatcher *m, size_t n) {
    RP_NOT_NULL(m, "m");
    if (n >= m->n_places) return rp_fail(RP_E_ARG, "grammar: %zu tokens back, %zu were accepted", n, m->n_places - 1);
    m->n_places -= n;
    const Place last = m->places[m->n_places - 1];
    m->n_threads     = last.threads + last.n_threads;
    return RP_OK;
}

bool rp_matcher_complete(const RpMatcher *m) { return m != NULL && m->places[m->n_places - 1].complete; }

bool rp_matcher_finished(const RpMatcher *m) {
    return m != NULL && (m->places[m->n_places - 1].ended ||
                         (m->places[m->n_places - 1].complete && m->places[m->n_places - 1].n_threads == 0));
}
