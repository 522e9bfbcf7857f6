/* pattern.h - patterns as data (extend.h): parsed, found, and put in place of what they match. */
#ifndef GRAPH_PATTERN_H
#define GRAPH_PATTERN_H

#include "graph/graph.h"

enum { PATTERN_TERMS = 64, PATTERN_NAMES = 40, PATTERN_ROOTS = 4, PATTERN_NAME = 16 };

typedef enum TermKind { TERM_ABSENT, TERM_VARIABLE, TERM_OP } TermKind;

typedef struct Term {
    TermKind kind;
    TensorOp op;
    bool     optional, stays; /* ? and ~ */
    int      name;            /* of the variable or label, -1: none */
    int      src[RP_MAX_SRC], n_src;
} Term;

typedef struct Pattern {
    Term     terms[PATTERN_TERMS];
    int      roots[PATTERN_ROOTS];
    char     names[PATTERN_NAMES][PATTERN_NAME];
    int      n_terms, n_roots, n_names;
    TensorOp made;
    int      make[RP_MAX_SRC], n_make; /* names, -1: absent */
} Pattern;

struct PatternMatch {
    const Pattern *pattern;
    TensorNode    *bound[PATTERN_NAMES]; /* NULL where absent */
    bool           known[PATTERN_NAMES];
    TensorNode    *roots[PATTERN_ROOTS];
    int            trail[PATTERN_NAMES]; /* the names that are known, in the order in which they were bound */
    int            n_trail;
    TensorNode    *inside[PATTERN_TERMS]; /* the matched ops, each once */
    bool           stays[PATTERN_TERMS];
    int            n_inside;
};

/* Puts the fused op where it belongs when that is not the place of the first root. */
typedef RpStatus PatternRewrite(ComputeGraph *g, const PatternMatch *m, const OpParams *params,
                                TensorNode *const src[], int n_src);

typedef struct PatternRow {
    GraphPattern    pattern;
    PatternRewrite *rewrite; /* or NULL */
} PatternRow;

/* RP_E_ARG with the place of the first thing that is wrong. */
RP_NODISCARD RpStatus rp_pattern_parse(const GraphPattern *text, Pattern *out);

/* RP_E_ARG where a store among the roots would be lost. For rows without a rewrite of their own. */
RP_NODISCARD RpStatus rp_pattern_check_stores(const GraphPattern *text, const Pattern *p);

/* Replaces what matches any of the rows, in one walk over the graph. */
RP_NODISCARD RpStatus rp_pattern_apply(ComputeGraph *g, const PatternRow *rows, int n_rows);

#endif
