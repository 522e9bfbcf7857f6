/* pattern.h - patterns as data: parsed from text, matched against a graph, replaced by a fused op. The
 * grammar is in reprise/extend.h. */
#ifndef GRAPH_PATTERN_H
#define GRAPH_PATTERN_H

#include "graph/graph.h"

enum { PATTERN_TERMS = 64, PATTERN_NAMES = 40, PATTERN_ROOTS = 4, PATTERN_NAME = 16 };

/* A parsed pattern is an array of terms, which refer to their sources by index. For example match
 * "mul(silu(x), x)", make "gelu(x)", where the only variable is name 0, names[0] = "x":
 *
 *     terms[0]  op mul   src 1, 3        roots[0] = 0
 *     terms[1]  op silu  src 2           make[0]  = 0
 *     terms[2]  variable name 0
 *     terms[3]  variable name 0 */
typedef enum TermKind { TERM_ABSENT, TERM_VARIABLE, TERM_OP } TermKind;

typedef struct Term {
    TermKind kind;
    TensorOp op;
    bool     optional, stays;        /* "?": may be absent. "~": stays in the graph for its other readers */
    int      name;                   /* number of the variable or label; -1: none */
    int      src[RP_MAX_SRC], n_src; /* indices into Pattern.terms */
} Term;

typedef struct Pattern {
    Term     terms[PATTERN_TERMS];
    int      roots[PATTERN_ROOTS]; /* indices into terms, in the order of the text */
    char     names[PATTERN_NAMES][PATTERN_NAME];
    int      n_terms, n_roots, n_names;
    TensorOp made;
    int      make[RP_MAX_SRC], n_make; /* sources of the made op, as numbers of names; -1: absent */
} Pattern;

struct RpPatternMatch {
    const Pattern *pattern;
    TensorNode    *bound[PATTERN_NAMES]; /* by name: its node; NULL if absent or not bound yet */
    bool           known[PATTERN_NAMES]; /* by name: it is bound, to a node or to "absent" */
    TensorNode    *roots[PATTERN_ROOTS];
    int            trail[PATTERN_NAMES]; /* bound names in the order of binding, for backtracking */
    int            n_trail;
    TensorNode    *inside[PATTERN_TERMS]; /* the matched op nodes, roots included, each once */
    bool           stays[PATTERN_TERMS];  /* by index of `inside`: matched by a term with "~" */
    int            n_inside;
};

/* Replaces a match by hand, for fused ops that do more than take the place of the first root. */
typedef RpStatus PatternRewrite(ComputeGraph *g, const RpPatternMatch *m, const RpOpParams *params,
                                TensorNode *const src[], int n_src);

typedef struct PatternRow {
    RpGraphPattern  pattern;
    PatternRewrite *rewrite; /* NULL: the first root becomes the made op */
} PatternRow;

/* RP_E_ARG with the character position of the first error. */
RP_NODISCARD RpStatus rp_pattern_parse(const RpGraphPattern *text, Pattern *out);

/* RP_E_ARG if a store among the roots would be lost, because the made op does not write there. For rows
 * without `rewrite`. */
RP_NODISCARD RpStatus rp_pattern_check_stores(const RpGraphPattern *text, const Pattern *p);

/* Replaces every match of any row, in one walk over the graph. Replaced nodes stay in graph->nodes as dead
 * nodes. */
RP_NODISCARD RpStatus rp_pattern_apply(ComputeGraph *g, const PatternRow *rows, int n_rows);

#endif
