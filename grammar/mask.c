/* Masks. Whether a token lies within the lexemes under way depends on the lexer's state alone, and is kept for each
 * state (StateMask), with the places in the trie where a lexeme ends. Only from there on the parser decides.
 *
 *     mask = for each thread (row, state):  bits of the state
 *                                         | for each end in the trie: what the row behind it allows in the subtree */
#include "grammar/tokens.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

static void allow(const RpGrammarVocab *v, uint32_t *bits, int32_t token) {
    for (; token >= 0; token = v->same[token]) bits[token / 32] |= 1u << (token % 32);
}

static RpStatus add_end(StateMask *s, TrieKind kind, uint32_t node, uint32_t state) {
    RP_TRY(RP_GROW(s->ends, s->end_room, s->n_ends + 1));
    s->ends[s->n_ends].trie    = kind;
    s->ends[s->n_ends].node    = node;
    s->ends[s->n_ends++].state = state;
    return RP_OK;
}

static void allow_subtree(const Trie *t, uint32_t node, uint32_t *bits) {
    const uint32_t end = t->nodes[t->nodes[node].end].ids;
    for (uint32_t i = t->nodes[node].ids; i < end; i++) bits[t->ids[i] / 32] |= 1u << (t->ids[i] % 32);
}

/* Walks a trie with one state of the lexer. */
static RpStatus walk_state(Lexer *l, const RpGrammarVocab *v, TrieKind kind, uint32_t start, StateMask *s) {
    const Trie *t = &v->tries[kind];
    uint32_t    state[MAX_TOKEN_BYTES + 1];
    state[0] = start;
    for (uint32_t i = 0; i < t->n;) {
        const TrieNode n = t->nodes[i];
        uint32_t       next;
        RP_TRY(rp_lexer_next(l, state[n.depth - 1], n.byte, &next));
        if (next == LEX_DEAD) {
            i = n.end;
            continue;
        }
        state[n.depth] = next;
        if (kind == TRIE_SAFE && l->states[next].any_chars >= n.chars && l->states[next].any_chars > 0) {
            allow_subtree(t, i, s->bits);
            i = n.end;
            continue;
        }
        if (n.token >= 0) allow(v, s->bits, n.token);
        /* the row behind it matters only below the node */
        if (n.end > i + 1 && l->states[next].accepts != 0) RP_TRY(add_end(s, kind, i, next));
        i++;
    }
    return RP_OK;
}

/* The kept mask of a state, computed if it is not there. */
static RpStatus state_mask(RpMatcher *m, uint32_t state, const StateMask **out) {
    const RpGrammarVocab *v = m->v;
    StateMask            *s = &m->g->masks[rp_mix(state, (uint32_t)v->number) % MASK_CACHE];
    *out                    = s;
    if (s->vocabulary == v->number && s->state == state) return RP_OK;
    const bool any = m->g->lexer.states[state].any_chars >= (uint32_t)v->tries[TRIE_SAFE].depth;
    s->vocabulary  = 0;
    s->n_ends      = 0;
    RP_TRY(RP_GROW(s->bits, s->bits_room, v->words));
    if (any)
        memcpy(s->bits, v->safe, v->words * sizeof *s->bits);
    else
        memset(s->bits, 0, v->words * sizeof *s->bits);
    if (!any) RP_TRY(walk_state(&m->g->lexer, v, TRIE_SAFE, state, s));
    RP_TRY(walk_state(&m->g->lexer, v, TRIE_OTHER, state, s));
    s->vocabulary = v->number;
    s->state      = state;
    return RP_OK;
}

/* Walks the nodes below `top` from a row where a lexeme begins, with all threads. */
static RpStatus walk_below(RpMatcher *m, const Trie *t, uint32_t top, Thread thread, uint32_t *bits) {
    const uint32_t end  = t->nodes[top].end;
    const int      base = t->nodes[top].depth;
    Walk          *w    = &m->walk;
    w->threads[0]       = thread;
    w->first[0]         = 0;
    w->first[1]         = 1;
    for (uint32_t i = top + 1; i < end;) {
        const TrieNode n = t->nodes[i];
        const int      d = n.depth - base;
        size_t         k = w->first[d];
        bool           complete;
        RP_TRY(rp_matcher_step(m, w->threads + w->first[d - 1], k - w->first[d - 1], n.byte, &w->threads, &k, &w->room,
                               &complete));
        w->first[d + 1]  = k;
        const bool alive = k > w->first[d];
        if (n.token >= 0 && (alive || complete)) allow(m->v, bits, n.token);
        i = alive ? i + 1 : n.end;
    }
    return RP_OK;
}

/* Whether the text behind a row can begin with a byte of text: TOKEN_BYTE is none. */
static RpStatus begins_with_text(RpMatcher *m, uint32_t state, bool *out) {
    *out = false;
    for (unsigned c = 0; c < TOKEN_BYTE && !*out; c++) {
        uint32_t next;
        RP_TRY(rp_lexer_next(&m->g->lexer, state, (unsigned char)c, &next));
        *out = next != LEX_DEAD;
    }
    return RP_OK;
}

static RpStatus add_thread(RpMatcher *m, Thread t, uint32_t *bits) {
    const StateMask *s;
    uint32_t         known = LEX_DEAD; /* the state that `text` is of */
    bool             text  = false;
    RP_TRY(state_mask(m, t.state, &s));
    for (size_t i = 0; i < m->v->words; i++) bits[i] |= s->bits[i];
    for (size_t i = 0; i < s->n_ends; i++) {
        const RowEnd end = {t.row, m->g->lexer.states[s->ends[i].state].accepts};
        uint32_t     row;
        RP_TRY(rp_rows_advance(&m->rows, &end, 1, &row));
        const uint32_t state = m->rows.rows[row].state;
        if (state == LEX_DEAD) continue;
        if (state != known) RP_TRY(begins_with_text(m, state, &text));
        known = state;
        if (!text) continue;
        RP_TRY(walk_below(m, &m->v->tries[s->ends[i].trie], s->ends[i].node, (Thread){row, m->rows.rows[row].state},
                          bits));
    }
    return RP_OK;
}

static void forbid(uint32_t *bits, int32_t token) { bits[token / 32] &= ~(1u << (token % 32)); }

/* Corrects a mask: tokens of the grammar are allowed where it asks for them. The lock is held. */
static RpStatus mask_tokens(RpMatcher *m, uint32_t *bits) {
    const RpGrammar *g    = m->g;
    const Place      last = m->places[m->n_places - 1];
    for (size_t i = 0; i < m->n_foreign; i++) forbid(bits, m->foreign[i]);
    for (size_t i = 0; i < g->n_tokens; i++) {
        const int32_t token = g->tokens[i];
        char          text[TOKEN_TEXT];
        bool          alive, complete;
        size_t        first, end;
        if (token >= m->v->n) continue;
        rp_token_text(token, text);
        RP_TRY(rp_matcher_read(m, text, sizeof text, &alive, &complete, &first, &end));
        if (alive)
            bits[token / 32] |= 1u << (token % 32);
        else if (!m->v->is_end[token] || !last.complete)
            forbid(bits, token);
    }
    return RP_OK;
}

RpStatus rp_matcher_mask(RpMatcher *m, uint32_t *bits) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(bits, "bits");
    const Place last = m->places[m->n_places - 1];
    RpStatus    st   = RP_OK;
    memset(bits, 0, m->v->words * sizeof *bits);
    if (last.ended) return RP_OK;
    if (last.complete)
        for (size_t i = 0; i < m->v->n_end; i++) bits[m->v->end_ids[i] / 32] |= 1u << (m->v->end_ids[i] % 32);
    rp_matcher_lock(m);
    for (uint32_t i = 0; i < last.n_threads && st == RP_OK; i++) st = add_thread(m, m->threads[last.threads + i], bits);
    if (st == RP_OK) st = mask_tokens(m, bits);
    rp_matcher_unlock(m);
    return st;
}
