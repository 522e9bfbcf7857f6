/* extend.h - own ops and own patterns, without touching the library (examples/extend.c).
 *
 *   static const OpDescription relu = {.name = "relu", .min_src = 1, .max_src = 1, .shape = relu_shape,
 *                                      .cpu = relu_cpu};
 *   static const GraphPattern fuse  = {.name = "relu", .match = "mul(relu(x), y)", .make = "relu_mul(x, y)"};
 *   TensorOp op;
 *   RP_TRY(rp_op_register(&relu, &op));
 *   RP_TRY(rp_pattern_register(&fuse));
 *   TensorNode *y = rp_graph_op(g, op, NULL, (TensorNode *const[]){x}, 1);
 *
 * What is registered holds for the whole process and is never taken back; register before graphs are built, from one
 * thread.
 */
#ifndef REPRISE_EXTEND_H
#define REPRISE_EXTEND_H

#include "reprise/graph.h"
#include "reprise/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills out's dtype, ne and nb from the sources (NULL: absent). On failure *why is a fixed text that completes
 * "relu: ...". */
typedef RpStatus ShapeRule(const TensorView *const src[RP_MAX_SRC], const OpParams *params, TensorView *out,
                           const char **why);

/* What an op is, as a row of ops.h says it. The texts and the struct must live as long as the process. */
typedef struct OpDescription {
    const char *name; /* letters, digits and _ */
    int         min_src, max_src;
    ShapeRule  *shape;
    unsigned    flags; /* RP_FLAG_INPLACE; RP_FLAG_FUSED, and with it RP_WRITES */
    OpKernel   *cpu;   /* as kernel.h says; called once by each worker, without KernelCtx.shared and own */
    /* Or NULL: plans with this op are refused on a GPU. It puts its kernel on ctx->stream, or, where ctx->launch is
     * set, describes it in a KernelLaunch and calls that instead: so that it can be captured, and its node given
     * other arguments. It waits for nothing and allocates nothing. */
    OpKernel *cuda;
} OpDescription;

/* *out is the new op, whose parameters are OpParams.custom. RP_E_ARG for a name that is taken or a description that lacks
 * something; *out is then as it was. RP_E_NOMEM where there is no room for more. */
RP_NODISCARD RpStatus rp_op_register(const OpDescription *description, TensorOp *out);

enum { RP_MAX_CUSTOM_OPS = 64, RP_MAX_CUSTOM_PATTERNS = 64 };

/* ---- patterns ----
 *
 * A pattern is a pass of one row: where `match` is found, its node becomes the op of `make`.
 *
 *   match   term { ";" term }
 *   term    variable | "_" | op [ "?" ] [ "~" ] [ ":" label ] "(" term { "," term } ")"
 *   make    op "(" ( variable | label | "_" ) { "," ... } ")"
 *
 * A variable stands for any node, the same at every place; "x?" may also be absent, and "_" must be. A source that a
 * term does not mention must be absent. "op?(...)" may be missing: then its first term stands in its place, and what
 * only the others mention is absent. Sources of add and mul of one shape may be exchanged.
 *
 * What is between the root and the variables goes: so no node outside the match may read it, nor may it be an output,
 * unless "~" says that it stays for its other readers and is computed again in the fused op. A label names a node for
 * `params`, and may stand in `make` unless it is a root's. Of several terms the first is replaced; the others must be
 * stores into states, which the made op then writes itself (RP_WRITES), and their readers see the state after it.
 * Of add and mul the first order in which the sources fit is taken; where `params` then refuses, the other is not tried.
 */
typedef struct PatternMatch PatternMatch;

/* The node of a label or variable; NULL where it is absent. */
const TensorNode *rp_match_node(const PatternMatch *m, const char *name);

/* The parameters and sources of a node. */
const OpParams   *rp_node_params(const TensorNode *node);
const TensorNode *rp_node_source(const TensorNode *node, int i);

typedef struct GraphPattern {
    const char *name; /* of the pass: letters, digits and _ */
    const char *help; /* or NULL */
    const char *match, *make;
    /* Or NULL: fills in the new op's parameters (zero before); false: this is no match. */
    bool (*params)(const PatternMatch *m, OpParams *out);
} GraphPattern;

/* Runs after the passes that the library has, in the order of registration. RP_E_ARG says at which character a text
 * is wrong. The struct must live as long as the process. */
RP_NODISCARD RpStatus rp_pattern_register(const GraphPattern *pattern);

#ifdef __cplusplus
}
#endif
#endif
