/* patterns.h - the rows of each pass that consists of patterns; pass.c lists them. */
#ifndef GRAPH_PATTERNS_H
#define GRAPH_PATTERNS_H

#include "graph/pattern.h"

/* Parameters of the node that a label or variable matched, NULL if there is none; and its type. */
static inline const RpOpParams *params_of(const RpPatternMatch *m, const char *label) {
    const TensorNode *n = rp_match_node(m, label);
    return n != NULL ? &n->params : NULL;
}

static inline RpDtype dtype_of(const RpPatternMatch *m, const char *name) { return rp_match_node(m, name)->view.dtype; }

extern const PatternRow rp_patterns_attention[3], rp_patterns_gate[7], rp_patterns_router[4], rp_patterns_experts[4],
    rp_patterns_shared[4], rp_patterns_linear[9], rp_patterns_residual[9], rp_patterns_norm[6], rp_patterns_round[7],
    rp_patterns_projections[3], rp_patterns_embed[1];

#endif
