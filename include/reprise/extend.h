/* extend.h - custom ops, patterns and types, without changing the library (examples/extend.c, examples/dtypes.c). A
 * custom op is a row like those of ops.h with its own kernels; a custom pattern is a pass that replaces a subgraph by
 * one op; a custom type is a format of weights.
 *
 *   static const RpOpDescription relu     = {.name = "relu", .n_required = 1, .n_sources = 1, .shape = relu_shape,
 *                                          .cpu = relu_cpu};
 *   static const RpOpDescription relu_mul = {.name = "relu_mul", .n_required = 2, .n_sources = 2, .shape = relu_shape,
 *                                          .flags = RP_FLAG_FUSED, .cpu = relu_mul_cpu};
 *   static const RpGraphPattern  fuse     = {.name = "relu", .match = "mul(relu(x), y)", .make = "relu_mul(x, y)"};
 *   TensorOp op, fused;
 *   RP_TRY(rp_op_register(&relu, &op));
 *   RP_TRY(rp_op_register(&relu_mul, &fused));
 *   RP_TRY(rp_pattern_register(&fuse));
 *   TensorNode *y = rp_graph_op(g, op, NULL, &x, 1);
 *
 * Registration is for the whole process and permanent. Register from one thread, before graphs are built. (Types may be
 * registered by any thread, before they are used.)
 */
#ifndef REPRISE_EXTEND_H
#define REPRISE_EXTEND_H

#include "reprise/graph.h"
#include "reprise/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sources of an op when the shape of its result is inferred; NULL: absent. Numbers and names as in RpOpArgs. */
typedef const RpTensorView *RpSourceShape;
typedef union RpSourceShapes {
    RpSourceShape src[RP_MAX_SRC];
    struct {
        RpSourceShape x;
    } unary;
    struct {
        RpSourceShape a, b;
    } binary;
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    struct {                                                                                                           \
        RpSourceShape RP_UNPACK sources;                                                                               \
    } name;
    RP_OPS(OP, OP)
#undef OP
} RpSourceShapes;

/* Fills in dtype, ne and nb of `out` from the sources and the parameters. On failure it sets *why to a static text,
 * which follows the op and its sources in the error: "the sources must be f32". All pointers are valid during the
 * call. */
typedef RpStatus RpShapeRule(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why);

/* A custom op, in the columns of ops.h. The struct is copied; `name` and `sources` with its texts are borrowed for the
 * life of the process. */
typedef struct RpOpDescription {
    const char        *name;                  /* letters, digits and _; not that of another op */
    int                n_required, n_sources; /* 0 <= n_required <= n_sources <= RP_MAX_SRC; the others are optional */
    const char *const *sources;               /* their names [n_sources], for errors and dumps, or NULL */
    RpShapeRule       *shape;
    unsigned           flags; /* RP_FLAG_INPLACE; RP_FLAG_FUSED: made by patterns only, which allows RP_WRITES */
    RpOpKernel        *cpu;   /* one call per worker and run (one phase); RpKernelCtx.shared and local are not for it */
    /* The CUDA launcher: enqueues its kernel on ctx->stream. If ctx->launch is set, it instead describes the kernel in
     * an RpKernelLaunch and calls ctx->launch, so that the launch can be captured and repointed. NULL: plans with this
     * op are refused on a GPU. */
    RpOpKernel *cuda;
} RpOpDescription;

/* *out is the new op; its parameters are RpOpParams.custom. RP_E_ARG for a name that is taken or an incomplete
 * description, RP_E_NOMEM if RP_MAX_CUSTOM_OPS are registered; *out is unchanged then. */
RP_API RP_NODISCARD RpStatus        rp_op_register_sized(const RpOpDescription *description, size_t description_bytes,
                                                         TensorOp *out);
RP_NODISCARD static inline RpStatus rp_op_register(const RpOpDescription *description, TensorOp *out) {
    return rp_op_register_sized(description, sizeof *description, out);
}

enum { RP_MAX_CUSTOM_OPS = 64, RP_MAX_CUSTOM_PATTERNS = 64 };

/* ---- patterns ----
 *
 * A pattern is a pass of one row: if `match` is found, the node of its root becomes the op of `make`.
 *
 *   match   root { ";" root }         a root is a term of the form op(...) without "?" and "~"
 *   term    variable [ "?" ] | "_" | op [ "?" ] [ "~" ] [ ":" label ] "(" term { "," term } ")"
 *   make    op "(" source { "," source } ")"         a source is a variable, a label or "_"
 *
 *   x          any node, the same node everywhere in the pattern
 *   x?         any node, or an absent source
 *   _          an absent source; a source that a term does not mention must be absent too
 *   op?(a,b)   the op, or its first term `a` alone; variables that occur only in `b` are absent then
 *   op~(...)   the op stays in the graph for other readers; the fused op computes it again
 *   op:name    gives the node a label, for `params` and `make` (in `make` not the label of a root)
 *
 * Worked example: "mul(silu(mul_mat(g, x)), mul_mat(u, x))" -> "gate_up(g, u, x)" fuses four nodes into one.
 *
 * Nodes between the root and the variables are removed. So no node outside the match may read them, and they must not
 * be outputs, except with "~". The two sources of add and mul may be exchanged if they have the same shape. The first
 * order that fits is taken; if `params` refuses it, the other is not tried.
 *
 * With several roots the first one, which must not be a store, is replaced. The others must be stores into states; the
 * made op writes these states itself (RP_WRITES), and readers of the stores see the states after it.
 */
typedef struct RpPatternMatch RpPatternMatch;

/* The node of a label or variable; NULL if it is absent. Borrowed from the graph. */
RP_API const TensorNode *rp_match_node(const RpPatternMatch *m, const char *name);

/* Parameters and source i of a node, owned by the graph. NULL for an absent source or i outside 0..RP_MAX_SRC-1. */
RP_API const RpOpParams *rp_node_params(const TensorNode *node);
RP_API const TensorNode *rp_node_source(const TensorNode *node, int i);

/* The struct is copied; its texts are borrowed for the life of the process. */
typedef struct RpGraphPattern {
    const char *name; /* of the pass: letters, digits and _; not "all", not that of another pass */
    const char *help; /* or NULL */
    const char *match, *make;
    /* Or NULL: fills in the parameters of the new op, which are zero before. False: this is no match. `m` is valid
     * during the call. */
    bool (*params)(const RpPatternMatch *m, RpOpParams *out);
} RpGraphPattern;

/* Adds the pattern as a pass behind those of the library, in the order of registration. RP_E_ARG for
 * a bad name or text (with the character), RP_E_NOMEM if RP_MAX_CUSTOM_PATTERNS are registered. */
RP_API RP_NODISCARD RpStatus        rp_pattern_register_sized(const RpGraphPattern *pattern, size_t pattern_bytes);
RP_NODISCARD static inline RpStatus rp_pattern_register(const RpGraphPattern *pattern) {
    return rp_pattern_register_sized(pattern, sizeof *pattern);
}

/* ---- types ----
 *
 * A custom type is a format of weights. A row of a tensor is a whole number of blocks:
 *
 *   const RpDtypeDescription fp8 = {.name = "fp8", .block_elems = 1, .block_bytes = 1, .dequantize = fp8_dequantize,
 *                                   .quantize = fp8_quantize};
 *   RpDtype type;
 *   RP_TRY(rp_dtype_register(&fp8, &type));
 *   RP_TRY(rp_quantize_row(type, values, n, row));       // calls fp8_quantize
 *   TensorNode *w = rp_graph_weight(g, "w", &view);      // of this type
 *   TensorNode *y = rp_mul_mat(g, w, x);
 *
 * Tensors of the type are sources `w` of get_rows, mul_mat and mul_mat_id, of the fused ops that passes make of these,
 * and of views; every other op refuses them. They are multiplied by f32: activations are not quantised for them. Plans
 * run on the CPU; on a GPU they are refused, except for custom ops that have a CUDA kernel and read the blocks
 * themselves.
 *
 * The functions get whole rows or slices of rows, always whole blocks, at any address. Several threads call them at
 * once. Results may depend on nothing but the arguments: then they depend on neither the number of threads nor the
 * other columns of a product. */
enum { RP_MAX_CUSTOM_DTYPES = 64, RP_DTYPE_MAX_ELEMS = 1024, RP_DTYPE_NAME_BYTES = 32 };

typedef struct RpDtypeDescription {
    const char *name;        /* 1 to 31 letters, digits and _; not that of another type, in any case; copied */
    int32_t     block_elems; /* elements of a block: 1, 2, 4, 8, or a multiple of 16 up to RP_DTYPE_MAX_ELEMS */
    int32_t     block_bytes; /* bytes of a block: 1 to 4 * block_elems */
    uint32_t    gguf_type;   /* its number in GGUF files, not one that rp_gguf_type_name knows; 0: never in a file */
    uint32_t    flags;       /* 0 */
    /* out[0..n) = the elements of the blocks at `row`. */
    void (*dequantize)(const void *row, int64_t n, float *out, void *user);
    /* Or NULL: rows cannot be quantised. Writes the blocks of x[0..n) to `row`. importance[0..n) >= 0 weighs the
     * errors; NULL: all are as important. A failure may have a text (rp_fail). */
    RpStatus (*quantize)(const float *x, const float *importance, int64_t n, void *row, void *user);
    /* The dot product of a whole row and x[0..n). Or NULL: products dequantise, and add up as those of f32 weights. */
    float (*dot)(const void *row, const float *x, int64_t n, void *user);
    /* Or NULL: every block is valid. False refuses a block, for instance one with a NaN for its scale. Asked when a
     * model is loaded or converted and by rp_dtype_check_row; products do not ask. */
    bool (*validate)(const void *block, void *user);
    void *user; /* handed to the functions; lives as long as the process */
} RpDtypeDescription;

/* *out is the new type, RP_DTYPE_CUSTOM for the first and so on. RP_E_ARG for a name or number that is taken or a
 * description that is not as above, RP_E_NOMEM if RP_MAX_CUSTOM_DTYPES are registered; *out is unchanged then. The
 * struct is copied. */
RP_API RP_NODISCARD RpStatus rp_dtype_register_sized(const RpDtypeDescription *description, size_t description_bytes,
                                                     RpDtype *out);
RP_NODISCARD static inline RpStatus rp_dtype_register(const RpDtypeDescription *description, RpDtype *out) {
    return rp_dtype_register_sized(description, sizeof *description, out);
}

/* Calls `validate` for each block of a row of n elements. RP_E_FORMAT with the number of an invalid block, RP_E_DTYPE
 * for a number that is no dtype, RP_E_SHAPE if n is not a whole number of blocks. Built-in types have no invalid
 * blocks. */
RP_API RP_NODISCARD RpStatus rp_dtype_check_row(RpDtype dtype, const void *row, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
