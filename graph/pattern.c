/* Finding patterns and putting the fused op in their place. During a walk `tag` counts a node's readers; a
 * node without any is gone, and its sources have lost a reader too. */
#include "graph/pattern.h"

#include <stdlib.h>
#include <string.h>

/* ---- matching ---- */

static bool bind(PatternMatch *m, int name, TensorNode *n) {
    if (name < 0) return true;
    if (m->known[name]) return m->bound[name] == n;
    m->known[name]         = true;
    m->bound[name]         = n;
    m->trail[m->n_trail++] = name;
    return true;
}

/* How far a match has come, and back to there. */
typedef struct Mark {
    int n_trail, n_inside;
} Mark;

static Mark mark_of(const PatternMatch *m) { return (Mark){m->n_trail, m->n_inside}; }

static void undo(PatternMatch *m, Mark to) {
    while (m->n_trail > to.n_trail) {
        const int name = m->trail[--m->n_trail];
        m->known[name] = false;
        m->bound[name] = NULL;
    }
    m->n_inside = to.n_inside;
}

static void add_inside(PatternMatch *m, TensorNode *n, bool stays) {
    for (int i = 0; i < m->n_inside; i++)
        if (m->inside[i] == n) return;
    m->stays[m->n_inside]    = stays;
    m->inside[m->n_inside++] = n;
}

static bool same_shape(const TensorNode *a, const TensorNode *b) {
    return a != NULL && b != NULL && memcmp(a->view.ne, b->view.ne, sizeof a->view.ne) == 0;
}

static bool is_op(const TensorNode *n, TensorOp op) { return n != NULL && n->kind == NODE_OP && n->op == op; }

static bool match_term(PatternMatch *m, int term, TensorNode *n);

static bool match_sources(PatternMatch *m, const Term *t, const TensorNode *n, bool exchanged) {
    for (int s = 0; s < RP_MAX_SRC; s++) {
        TensorNode *src = n->src[exchanged && s < 2 ? 1 - s : s];
        if (s < t->n_src ? !match_term(m, t->src[s], src) : src != NULL) return false;
    }
    return true;
}

static bool match_op(PatternMatch *m, const Term *t, TensorNode *n) {
    if (!is_op(n, t->op)) return false;
    const Mark before = mark_of(m);
    if (m->n_inside == PATTERN_TERMS || !bind(m, t->name, n)) return false;
    add_inside(m, n, t->stays);
    const Mark entered = mark_of(m);
    if (match_sources(m, t, n, false)) return true;
    undo(m, entered);
    if ((n->op == RP_OP_ADD || n->op == RP_OP_MUL) && same_shape(n->src[0], n->src[1]) &&
        match_sources(m, t, n, true))
        return true;
    undo(m, before);
    return false;
}

static bool match_term(PatternMatch *m, int term, TensorNode *n) {
    const Term *t = &m->pattern->terms[term];
    if (t->kind == TERM_ABSENT) return n == NULL;
    if (t->kind == TERM_VARIABLE) return (n != NULL || t->optional) && bind(m, t->name, n);
    return match_op(m, t, n) || (t->optional && match_term(m, t->src[0], n));
}

static bool match_roots(PatternMatch *m, const ComputeGraph *g, int from) {
    if (from >= m->pattern->n_roots || from >= PATTERN_ROOTS) return true;
    const int   term = m->pattern->roots[from], label = m->pattern->terms[term].name;
    const bool  told = label >= 0 && m->known[label];
    TensorNode *only = told ? m->bound[label] : NULL;
    for (int i = 0; i < (told ? 1 : g->n_nodes); i++) {
        TensorNode *n = told ? only : g->nodes[i];
        if (!is_op(n, m->pattern->terms[term].op)) continue;
        const Mark before = mark_of(m);
        if (match_term(m, term, n)) {
            m->roots[from] = n;
            if (match_roots(m, g, from + 1)) return true;
        }
        undo(m, before);
    }
    return false;
}

/* ---- side conditions ---- */

static bool is_root(const PatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->pattern->n_roots; i++)
        if (m->roots[i] == n) return true;
    return false;
}

static bool is_inside(const PatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->n_inside; i++)
        if (m->inside[i] == n) return true;
    return false;
}

static bool has_other_readers(const PatternMatch *m, const TensorNode *n) {
    int readers = 0;
    for (int i = 0; i < m->n_inside; i++)
        for (int s = 0; s < RP_MAX_SRC; s++) readers += m->inside[i]->src[s] == n;
    return n->is_output || readers != n->tag;
}

static bool all_goes(const PatternMatch *m) {
    for (int i = 0; i < m->n_inside; i++)
        if (!m->stays[i] && !is_root(m, m->inside[i]) && has_other_readers(m, m->inside[i])) return false;
    for (int i = 0; i < m->pattern->n_roots; i++)
        for (int j = 0; j < i; j++)
            if (m->roots[i] == m->roots[j]) return false;
    return true;
}

static bool is_source(const PatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->pattern->n_make; i++)
        if (m->pattern->make[i] >= 0 && m->bound[m->pattern->make[i]] == n) return true;
    return false;
}

static bool shares_base_with_source(const PatternMatch *m, const TensorNode *base) {
    for (int i = 0; i < m->pattern->n_make; i++) {
        const int name = m->pattern->make[i];
        if (name >= 0 && m->bound[name] != NULL && m->bound[name]->base == base) return true;
    }
    return false;
}

static bool writes_source(const PatternMatch *m, const TensorNode *n) {
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (node_writes(n, s) && shares_base_with_source(m, n->src[s]->base)) return true;
    return false;
}

/* The fused op reads at the place of its root what the ops inside have read before: nothing may have been
 * written to it between. */
static bool sources_hold(const PatternMatch *m, const ComputeGraph *g) {
    int first = m->roots[0]->id, last = first;
    for (int i = 0; i < m->n_inside; i++) {
        if (m->inside[i]->id < first) first = m->inside[i]->id;
        if (m->inside[i]->id > last) last = m->inside[i]->id;
    }
    for (int i = first + 1; i < last; i++)
        if (!is_inside(m, g->nodes[i]) && writes_source(m, g->nodes[i])) return false;
    return true;
}

/* Several roots become one op: none may depend on another but directly, and between them nothing is stored,
 * nor is what they store into read but through them. */
static bool roots_join(const PatternMatch *m, const ComputeGraph *g) {
    int first = m->roots[0]->id, last = first;
    if (m->pattern->n_roots == 1) return true;
    for (int i = 1; i < m->pattern->n_roots; i++) {
        if (m->roots[i]->id < first) first = m->roots[i]->id;
        if (m->roots[i]->id > last) last = m->roots[i]->id;
    }
    for (int i = first; i <= last; i++) {
        TensorNode *n = g->nodes[i];
        n->mark       = is_root(m, n); /* depends on a root */
        if (n->kind != NODE_OP) continue;
        for (int s = 0; s < RP_MAX_SRC; s++) {
            if (n->src[s] == NULL) continue;
            const bool depends = n->src[s]->id >= first && n->src[s]->mark;
            if (depends && is_inside(m, n) && !is_root(m, n->src[s])) return false;
            n->mark = n->mark || depends;
            if (node_writes(n, s) && !is_root(m, n)) return false;
            for (int r = 0; r < m->pattern->n_roots && !is_inside(m, n) && !depends; r++)
                if (node_is_store(m->roots[r]) && n->src[s]->base == m->roots[r]->base) return false;
        }
        if (n->mark && is_source(m, n)) return false;
    }
    return true;
}

/* ---- replacing ---- */

static void lose_reader(TensorNode *n) {
    if (n == NULL || --n->tag > 0 || n->kind != NODE_OP || n->is_output) return;
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (node_writes(n, s)) return;
    for (int s = 0; s < RP_MAX_SRC; s++) lose_reader(n->src[s]);
}

static void gain_readers(const TensorNode *n) {
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL) n->src[s]->tag++;
}

static RpStatus become(TensorNode *n, TensorOp op, const OpParams *params, TensorNode *const src[],
                       int n_src) {
    TensorNode *old[RP_MAX_SRC];
    memcpy(old, n->src, sizeof old);
    RP_TRY(rp_graph_mutate(n, op, params, src, n_src));
    gain_readers(n);
    for (int s = 0; s < RP_MAX_SRC; s++) lose_reader(old[s]);
    return RP_OK;
}

static void emit(ComputeGraph *g, TensorNode *n) {
    if (n == NULL || n->mark) return;
    n->mark = true;
    for (int s = 0; s < RP_MAX_SRC; s++) emit(g, n->src[s]);
    n->id                  = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
}

/* The order they have, but for what must stand before its readers now. */
static RpStatus sort(ComputeGraph *g) {
    const int    n   = g->n_nodes;
    TensorNode **old = malloc((size_t)n * sizeof(TensorNode *));
    if (old == NULL) return rp_fail(RP_E_NOMEM, "out of memory in a pass");
    memcpy(old, g->nodes, (size_t)n * sizeof(TensorNode *));
    for (int i = 0; i < n; i++) old[i]->mark = false;
    g->n_nodes = 0;
    for (int i = 0; i < n; i++) emit(g, old[i]);
    free(old);
    rp_graph_settle(g);
    return RP_OK;
}

static RpStatus join_roots(ComputeGraph *g, const PatternMatch *m) {
    static const OpParams none = {0};
    for (int i = 1; i < m->pattern->n_roots; i++)
        RP_TRY(become(m->roots[i], RP_OP_AFTER, &none,
                      (TensorNode *const[]){m->roots[i]->src[1], m->roots[0]}, 2));
    return sort(g);
}

static RpStatus replace(ComputeGraph *g, const PatternRow *row, const PatternMatch *m, const OpParams *params,
                        TensorNode *const src[], int n_src) {
    if (row->rewrite != NULL) {
        RP_TRY(row->rewrite(g, m, params, src, n_src));
        rp_graph_count_uses(g);
        return sort(g);
    }
    RP_TRY(become(m->roots[0], m->pattern->made, params, src, n_src));
    return m->pattern->n_roots > 1 ? join_roots(g, m) : RP_OK;
}

static bool other_roots_store(const PatternMatch *m) {
    for (int i = 1; i < m->pattern->n_roots; i++)
        if (!node_is_store(m->roots[i]) || m->roots[i]->src[1]->kind != NODE_STATE) return false;
    return true;
}

static RpStatus match_and_replace(ComputeGraph *g, const PatternRow *row, PatternMatch *m, bool *done) {
    const Pattern *p               = m->pattern;
    TensorNode    *n               = m->roots[0];
    OpParams       params          = {0};
    TensorNode    *src[RP_MAX_SRC] = {0};
    if (!match_term(m, p->roots[0], n) || !match_roots(m, g, 1) || !all_goes(m)) return RP_OK;
    if (row->rewrite == NULL && !other_roots_store(m)) return RP_OK;
    if (!sources_hold(m, g) || !roots_join(m, g)) return RP_OK;
    if (row->pattern.params != NULL && !row->pattern.params(m, &params)) return RP_OK;
    for (int i = 0; i < p->n_make; i++) src[i] = p->make[i] >= 0 ? m->bound[p->make[i]] : NULL;
    if (!rp_graph_fits(row->rewrite == NULL ? n : NULL, p->made, &params, src, p->n_make)) return RP_OK;
    *done = true;
    return replace(g, row, m, &params, src, p->n_make);
}

/* `m` knows nothing before and after. */
static RpStatus try_row(ComputeGraph *g, const PatternRow *row, const Pattern *p, PatternMatch *m,
                        TensorNode *n, bool *done) {
    *done = false;
    if (!is_op(n, p->terms[p->roots[0]].op)) return RP_OK;
    m->pattern        = p;
    m->roots[0]       = n;
    const RpStatus st = match_and_replace(g, row, m, done);
    undo(m, (Mark){0, 0});
    return st;
}

static RpStatus apply(ComputeGraph *g, const PatternRow *rows, const Pattern *patterns, int n_rows) {
    PatternMatch m    = {0};
    int          left = 16 * g->n_nodes; /* a pattern may match what it has made, but not for ever */
    rp_graph_count_uses(g);
    for (int i = 0; i < g->n_nodes; i++) {
        TensorNode *n = g->nodes[i];
        if (n->tag == 0 && !n->is_output && !node_is_store(n)) continue; /* gone */
        for (int r = 0; r < n_rows; r++) {
            bool done = false;
            RP_TRY(try_row(g, &rows[r], &patterns[r], &m, n, &done));
            if (!done) continue;
            if (left-- == 0)
                return rp_fail(RP_E_ARG, "pattern '%s' matches what it makes, without end",
                               rows[r].pattern.name);
            i = n->id; /* where it stands now */
            r = -1;    /* what it has become may match again */
        }
    }
    return RP_OK;
}

RpStatus rp_pattern_apply(ComputeGraph *g, const PatternRow *rows, int n_rows) {
    Pattern *patterns = malloc((size_t)n_rows * sizeof *patterns);
    RpStatus st       = patterns != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for patterns");
    for (int i = 0; i < n_rows && st == RP_OK; i++) st = rp_pattern_parse(&rows[i].pattern, &patterns[i]);
    if (st == RP_OK) st = apply(g, rows, patterns, n_rows);
    free(patterns);
    return st;
}

const TensorNode *rp_match_node(const PatternMatch *m, const char *name) {
    for (int i = 0; i < m->pattern->n_names; i++)
        if (strcmp(m->pattern->names[i], name) == 0) return m->bound[i];
    return NULL;
}
