/* rules.h - the rules of each op (shape, check, gradient): one const struct per op, which the file of the op defines.
 *
 *   const OpRules rp_rules_silu = {.shape = rp_shape_unary, .check = rp_check_unary, .gradient = gradient};
 *
 * A row without it is a link error that names rp_rules_<op>. This header has only what callers need; the files of ops
 * include ops/op.h. */
#ifndef OPS_RULES_H
#define OPS_RULES_H

#include "base/kernels.h"
#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct Backward;
struct OpNode;
struct PartList;
struct TensorNode;
union RpSourceShapes;

typedef struct OpRules {
    /* Checks sources and parameters of a node, and infers its result (RpShapeRule of reprise/extend.h). */
    RpStatus (*shape)(const union RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why);

    /* Checks types, shapes and parameters of one call of a kernel (RP_CHECK). NULL for views. `op` is the name. */
    RpStatus (*check)(const char *op, const RpOpArgs *args);

    /* Adds the nodes of the gradients of y's sources; dy is the gradient of y, contiguous f32 of its shape. Returns
     * NULL, or why it cannot. Not NULL: rp_gradient_constant, or rp_gradient_none for an op without a rule
     * (ops/backward.h). */
    const char *(*gradient)(struct Backward *b, const struct OpNode *y, struct TensorNode *dy);

    /* For dumps. */
    void (*parts)(struct PartList *list, const struct OpNode *n); /* or NULL: appends what a fused op does, in order */
    const char *colour;                                           /* of DOT; NULL: grey */

    bool commutes; /* its two sources may be exchanged */
} OpRules;

#ifndef __CUDACC_RTC__ /* kernels of source text have no rules */
#define OP(number, ID, name, required, sources, Params, fields, flags) extern const OpRules rp_rules_##name;
RP_OPS(OP, OP)
#undef OP
#endif

/* The rules of a row; NULL for a custom op and for a number that is no op. */
const OpRules *rp_op_rules(TensorOp op);

/* A kernel begins with it: RP_TRY(RP_CHECK(silu, args)). RP_E_DTYPE, RP_E_SHAPE or RP_E_ARG; the text names the op,
 * what must be, and all shapes (I11). It does not repeat the whole shape rule, which has checked the node when the
 * graph was built. */
#define RP_CHECK(op, args) rp_rules_##op.check(#op, args)

#ifdef __cplusplus
}
#endif
#endif
