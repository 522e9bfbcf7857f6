/* Finds patterns in a graph and replaces each match by a fused op, in three stages:
 *
 *   match       bind variables and labels to nodes, by backtracking
 *   check       the side conditions under which the fused op computes the same values
 *   replace     the first root becomes the fused op; the other matched ops lose their readers
 *
 * During a walk `tag` is the number of readers of a node, plus 1 for an output. A node with tag 0 that is
 * neither an output nor a store is dead: its sources no longer count it, the walk skips it, and
 * rp_graph_drop_dead removes it. */
#include "graph/pattern.h"
#include "graph/origin.h"

#include "ops/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- matching ---- */

/* Binds a name to a node, or to NULL for an absent one. A name that is bound already must be bound to the
 * same node. */
static bool bind(RpPatternMatch *m, int name, TensorNode *n) {
    if (name < 0) return true;
    if (m->known[name]) return m->bound[name] == n;
    m->known[name]         = true;
    m->bound[name]         = n;
    m->trail[m->n_trail++] = name;
    return true;
}

/* A state of a match to which it can backtrack. */
typedef struct Checkpoint {
    int n_trail, n_inside;
} Checkpoint;

static Checkpoint checkpoint(const RpPatternMatch *m) { return (Checkpoint){m->n_trail, m->n_inside}; }

static void undo(RpPatternMatch *m, Checkpoint to) {
    while (m->n_trail > to.n_trail) {
        const int name = m->trail[--m->n_trail];
        m->known[name] = false;
        m->bound[name] = NULL;
    }
    m->n_inside = to.n_inside;
}

static void add_inside(RpPatternMatch *m, TensorNode *n, bool stays) {
    for (int i = 0; i < m->n_inside; i++)
        if (m->inside[i] == n) return;
    m->stays[m->n_inside]    = stays;
    m->inside[m->n_inside++] = n;
}

static bool same_shape(const TensorNode *a, const TensorNode *b) {
    return a != NULL && b != NULL && memcmp(a->view.ne, b->view.ne, sizeof a->view.ne) == 0;
}

static bool is_op(const TensorNode *n, TensorOp op) { return n != NULL && n->kind == NODE_OP && n->op == op; }

static bool match_term(RpPatternMatch *m, int term, TensorNode *n);

/* Sources that the term does not mention must be absent. `exchanged`: sources 0 and 1 of n trade places. */
static bool match_sources(RpPatternMatch *m, const Term *t, const TensorNode *n, bool exchanged) {
    for (int s = 0; s < RP_MAX_SRC; s++) {
        TensorNode *src = n->src[exchanged && s < 2 ? 1 - s : s];
        if (s < t->n_src ? !match_term(m, t->src[s], src) : src != NULL) return false;
    }
    return true;
}

static bool match_op(RpPatternMatch *m, const Term *t, TensorNode *n) {
    if (!is_op(n, t->op)) return false;
    const Checkpoint before = checkpoint(m);
    if (m->n_inside == PATTERN_TERMS || !bind(m, t->name, n)) return false;
    add_inside(m, n, t->stays);
    const Checkpoint entered = checkpoint(m);
    if (match_sources(m, t, n, false)) return true;
    undo(m, entered);
    /* Sources commute, unless the second one is smaller and repeats. */
    const OpRules *rules = rp_op_rules(n->op);
    if (rules != NULL && rules->commutes && same_shape(n->from.binary.a, n->from.binary.b) &&
        match_sources(m, t, n, true))
        return true;
    undo(m, before);
    return false;
}

static bool match_term(RpPatternMatch *m, int term, TensorNode *n) {
    const Term *t = &m->pattern->terms[term];
    if (t->kind == TERM_ABSENT) return n == NULL;
    if (t->kind == TERM_VARIABLE) return (n != NULL || t->optional) && bind(m, t->name, n);
    /* An optional op that is absent: its first source stands in its place. */
    return match_op(m, t, n) || (t->optional && match_term(m, *t->src, n));
}

static bool is_earlier_root(const RpPatternMatch *m, const TensorNode *n, int from) {
    for (int i = 0; i < from; i++)
        if (m->roots[i] == n) return true;
    return false;
}

/* Finds nodes for the roots `from`, from + 1, ... If the label of a root is bound already, by an earlier
 * root that reads it, only that node is tried. Otherwise every node is tried, with backtracking over the
 * roots that follow. */
static bool match_roots(RpPatternMatch *m, const ComputeGraph *g, int from) {
    if (from >= m->pattern->n_roots || from >= PATTERN_ROOTS) return true;
    const int   term = m->pattern->roots[from], label = m->pattern->terms[term].name;
    const bool  is_bound = label >= 0 && m->known[label];
    TensorNode *only     = is_bound ? m->bound[label] : NULL;
    for (int i = 0; i < (is_bound ? 1 : g->n_nodes); i++) {
        TensorNode *n = is_bound ? only : g->nodes[i];
        if (!is_op(n, m->pattern->terms[term].op) || is_earlier_root(m, n, from)) continue;
        const Checkpoint before = checkpoint(m);
        if (match_term(m, term, n)) {
            m->roots[from] = n;
            if (match_roots(m, g, from + 1)) return true;
        }
        undo(m, before);
    }
    return false;
}

/* ---- side conditions ---- */

static bool is_root(const RpPatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->pattern->n_roots; i++)
        if (m->roots[i] == n) return true;
    return false;
}

static bool is_inside(const RpPatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->n_inside; i++)
        if (m->inside[i] == n) return true;
    return false;
}

/* True if a node outside of the match needs the value of n. */
static bool has_other_readers(const RpPatternMatch *m, const TensorNode *n) {
    int readers = 0;
    for (int i = 0; i < m->n_inside; i++)
        for (int s = 0; s < RP_MAX_SRC; s++) readers += m->inside[i]->src[s] == n;
    return n->is_output || readers != n->tag;
}

/* Every matched op but the roots, and those marked "~", can be removed; and the roots are distinct nodes. */
static bool can_remove_inside(const RpPatternMatch *m) {
    for (int i = 0; i < m->n_inside; i++)
        if (!m->stays[i] && !is_root(m, m->inside[i]) && has_other_readers(m, m->inside[i])) return false;
    for (int i = 0; i < m->pattern->n_roots; i++)
        for (int j = 0; j < i; j++)
            if (m->roots[i] == m->roots[j]) return false;
    return true;
}

/* True if n is a source of the fused op. */
static bool is_source(const RpPatternMatch *m, const TensorNode *n) {
    for (int i = 0; i < m->pattern->n_make; i++)
        if (m->pattern->make[i] >= 0 && m->bound[m->pattern->make[i]] == n) return true;
    return false;
}

static bool shares_base_with_source(const RpPatternMatch *m, const TensorNode *base) {
    for (int i = 0; i < m->pattern->n_make; i++) {
        const int name = m->pattern->make[i];
        if (name >= 0 && m->bound[name] != NULL && m->bound[name]->base == base) return true;
    }
    return false;
}

/* True if n writes to memory that a source of the fused op lies in. */
static bool writes_source(const RpPatternMatch *m, const TensorNode *n) {
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (node_writes(n, s) && shares_base_with_source(m, n->src[s]->base)) return true;
    return false;
}

/* The fused op reads its sources at the place of the root; the matched ops read them earlier. So no other
 * node in between may write to a source. This match of "mul(silu(x), y)" is refused:
 *
 *     4  a  = silu(s)        matched, reads the state s
 *     5  s1 = copy(y, s)     writes s
 *     6  d  = mul(a, y)      root: a fused op here would read s after the store */
static bool sources_unchanged(const RpPatternMatch *m, const ComputeGraph *g) {
    int first = m->roots[0]->id, last = first;
    for (int i = 0; i < m->n_inside; i++) {
        if (m->inside[i]->id < first) first = m->inside[i]->id;
        if (m->inside[i]->id > last) last = m->inside[i]->id;
    }
    for (int i = first + 1; i < last; i++)
        if (!is_inside(m, g->nodes[i]) && writes_source(m, g->nodes[i])) return false;
    return true;
}

/* Several roots become one op, which does the work of all of them at one place. Example: the pattern
 * "silu(x); copy(gelu(z), s)" with make "both(x, z, s)".
 *
 *     4  y  = silu(x)          root 0     ->     y  = both(x, z, s)     writes its result and the state s
 *     5  g  = gelu(z)          matched           (dead)
 *     6  s1 = copy(g, s)       root 1     ->     s1 = after(s, y)       a view: s after y has written to it
 *     7  r  = sigmoid(s1)                        r  = sigmoid(s1)       reads the same version of s
 *
 * The store moves from 6 to 4. The match is refused if, among the nodes from the first to the last root,
 *
 *   - a node other than the roots stores anything: the order of stores could change
 *   - a node outside reads s, and not through a root: it would see the store too early
 *   - a source of the fused op depends on a root, such as z = sigmoid(y): the graph would have a cycle
 *   - a matched op depends on a root other than by reading it directly: the graph would have a cycle
 *
 * A matched op may read a root directly: of the router's roots, route reads top_k. `mark` means: is a root
 * or depends on one. It is set in node order, so the marks of all sources from `first` on are valid when a
 * node is reached. */
static bool can_join_roots(const RpPatternMatch *m, const ComputeGraph *g) {
    int first = m->roots[0]->id, last = first;
    if (m->pattern->n_roots == 1) return true;
    for (int i = 1; i < m->pattern->n_roots; i++) {
        if (m->roots[i]->id < first) first = m->roots[i]->id;
        if (m->roots[i]->id > last) last = m->roots[i]->id;
    }
    for (int i = first; i <= last; i++) {
        TensorNode *n = g->nodes[i];
        n->mark       = is_root(m, n);
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

/* n loses a reader. If that was the last one, n is dead, and its sources lose a reader too. */
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

/* rp_graph_mutate, with the counts in `tag` kept up to date. New sources gain a reader before the old ones
 * lose theirs, so that a node which is both never counts as dead. */
static RpStatus mutate(TensorNode *n, TensorOp op, const RpOpParams *params, TensorNode *const src[], int n_src) {
    TensorNode *old[RP_MAX_SRC];
    memcpy(old, n->src, sizeof old);
    RP_TRY(rp_graph_mutate(n, op, params, src, n_src));
    gain_readers(n);
    for (int s = 0; s < RP_MAX_SRC; s++) lose_reader(old[s]);
    return RP_OK;
}

/* Appends n to g->nodes, after those of its sources that are not there yet. */
static void emit(ComputeGraph *g, TensorNode *n) {
    if (n == NULL || n->mark) return;
    n->mark = true;
    for (int s = 0; s < RP_MAX_SRC; s++) emit(g, n->src[s]);
    n->id                  = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
}

/* Restores the topological order (I1). Nodes keep their order, except that a source moves before its first
 * reader. */
static RpStatus sort(ComputeGraph *g) {
    const int    n   = g->n_nodes;
    TensorNode **old = malloc((size_t)n * sizeof(TensorNode *));
    if (old == NULL) return rp_fail(RP_E_NOMEM, "out of memory in a pass");
    memcpy(old, g->nodes, (size_t)n * sizeof(TensorNode *));
    for (int i = 0; i < n; i++) old[i]->mark = false;
    g->n_nodes = 0;
    for (int i = 0; i < n; i++) emit(g, old[i]);
    free(old);
    rp_graph_update_bases(g);
    return RP_OK;
}

/* The other roots, stores into states, become views of their state after the fused op. */
static RpStatus join_roots(ComputeGraph *g, const RpPatternMatch *m) {
    static const RpOpParams none = {0};
    for (int i = 1; i < m->pattern->n_roots; i++)
        RP_TRY(mutate(m->roots[i], RP_OP_AFTER, &none,
                      (TensorNode *const[]){m->roots[i]->from.store.target, m->roots[0]}, 2));
    return sort(g);
}

/* Nodes from `first_made` on, or the first root if there are none, do the work of all matched nodes. */
static RpStatus note_origins(ComputeGraph *g, const RpPatternMatch *m, int first_made) {
    const bool made = first_made < g->n_nodes;
    for (int r = 0; r < m->pattern->n_roots; r++) rp_origin_note_pass(m->roots[r]);
    for (int k = 0; k < m->n_inside; k++) {
        if (!made) RP_TRY(rp_origin_merge(m->roots[0], m->inside[k]));
        for (int i = first_made; i < g->n_nodes; i++) RP_TRY(rp_origin_merge(g->nodes[i], m->inside[k]));
    }
    return RP_OK;
}

static RpStatus replace(ComputeGraph *g, const PatternRow *row, const RpPatternMatch *m, const RpOpParams *params,
                        TensorNode *const src[], int n_src) {
    const int first_made = g->n_nodes;
    if (row->rewrite != NULL) {
        RP_TRY(row->rewrite(g, m, params, src, n_src));
        RP_TRY(note_origins(g, m, first_made));
        rp_graph_count_uses(g);
        return sort(g);
    }
    RP_TRY(note_origins(g, m, first_made));
    RP_TRY(mutate(m->roots[0], m->pattern->made, params, src, n_src));
    return m->pattern->n_roots > 1 ? join_roots(g, m) : RP_OK;
}

/* join_roots can replace a root only if it is a store into a state. */
static bool other_roots_store(const RpPatternMatch *m) {
    for (int i = 1; i < m->pattern->n_roots; i++)
        if (!node_is_store(m->roots[i]) || m->roots[i]->from.store.target->kind != NODE_STATE) return false;
    return true;
}

/* Matches the pattern with m->roots[0] as first root. *done tells whether it was replaced. */
static RpStatus match_and_replace(ComputeGraph *g, const PatternRow *row, RpPatternMatch *m, bool *done) {
    const Pattern *p               = m->pattern;
    TensorNode    *n               = m->roots[0];
    RpOpParams     params          = {0};
    TensorNode    *src[RP_MAX_SRC] = {0};
    if (!match_term(m, p->roots[0], n) || !match_roots(m, g, 1) || !can_remove_inside(m)) return RP_OK;
    if (row->rewrite == NULL && !other_roots_store(m)) return RP_OK;
    if (!sources_unchanged(m, g) || !can_join_roots(m, g)) return RP_OK;
    if (row->pattern.params != NULL && !row->pattern.params(m, &params)) return RP_OK;
    for (int i = 0; i < p->n_make; i++) src[i] = p->make[i] >= 0 ? m->bound[p->make[i]] : NULL;
    if (!rp_graph_fits(row->rewrite == NULL ? n : NULL, p->made, &params, src, p->n_make)) return RP_OK;
    *done = true;
    return replace(g, row, m, &params, src, p->n_make);
}

/* Tries one row at node n. All bindings of `m` are undone afterwards, so one RpPatternMatch serves the whole
 * walk. */
static RpStatus try_row(ComputeGraph *g, const PatternRow *row, const Pattern *p, RpPatternMatch *m, TensorNode *n,
                        bool *done) {
    *done = false;
    if (!is_op(n, p->terms[p->roots[0]].op)) return RP_OK;
    m->pattern        = p;
    m->roots[0]       = n;
    const RpStatus st = match_and_replace(g, row, m, done);
    undo(m, (Checkpoint){0, 0});
    return st;
}

/* One walk over the nodes in order, with every row tried at each node. Example: the row
 * "mul(silu(mul_mat(g, x)), mul_mat(u, x))" with make "gate_up(g, u, x)".
 *
 *     id   before                  tag          after                   tag
 *      2   x = ...                  2           x = ...                  1
 *      3   a = mul_mat(g, x)        1           a = mul_mat(g, x)        0   dead
 *      4   b = silu(a)              1           b = silu(a)              0   dead
 *      5   c = mul_mat(u, x)        1           c = mul_mat(u, x)        0   dead
 *      6   d = mul(b, c)            1           d = gate_up(g, u, x)     1
 *
 * The walk finds the match at 6, its root. a, b and c have no readers but matched ops, so they may go.
 * Node 6 changes its op and sources but keeps its address, so the reader of d needs no change.
 *
 * Then all rows are tried at 6 again, because the new op may be the root of another match. A row that
 * matches its own result would repeat for ever, which `left` turns into an error. */
static RpStatus apply(ComputeGraph *g, const PatternRow *rows, const Pattern *patterns, int n_rows) {
    RpPatternMatch m    = {0};
    int            left = 16 * g->n_nodes; /* replacements before the walk gives up */
    rp_graph_count_uses(g);
    for (int i = 0; i < g->n_nodes; i++) {
        TensorNode *n = g->nodes[i];
        if (n->tag == 0 && !n->is_output && !node_is_store(n)) continue; /* dead */
        for (int r = 0; r < n_rows; r++) {
            bool done = false;
            RP_TRY(try_row(g, &rows[r], &patterns[r], &m, n, &done));
            if (!done) continue;
            if (left-- == 0)
                return rp_fail(RP_E_ARG, "pattern '%s' matches its own result without end", rows[r].pattern.name);
            i = n->id; /* sort() may have moved it */
            r = -1;    /* the first row is next */
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

const TensorNode *rp_match_node(const RpPatternMatch *m, const char *name) {
    if (m == NULL || name == NULL) return NULL;
    for (int i = 0; i < m->pattern->n_names; i++)
        if (strcmp(m->pattern->names[i], name) == 0) return m->bound[i];
    return NULL;
}
