/* patterns.h - the rows of each pass that consists of patterns; pass.c lists them. */
#ifndef GRAPH_PATTERNS_H
#define GRAPH_PATTERNS_H

#include "graph/pattern.h"

extern const PatternRow rp_patterns_attention[2], rp_patterns_qkv[3], rp_patterns_gate[7], rp_patterns_router[4],
    rp_patterns_experts[2], rp_patterns_shared[4], rp_patterns_linear[3], rp_patterns_residual[5], rp_patterns_norm[6],
    rp_patterns_round[6], rp_patterns_projections[3], rp_patterns_embed[1];

#endif
