/* graph.h - build a ComputeGraph, a list of tensor nodes in topological order. Nothing is computed here: executor.h
 * plans and runs the finished graph.
 *
 *   const int64_t ne[RP_MAX_DIMS] = {n_embd, n_tok, 1, 1};
 *   ComputeGraph *g = rp_graph_new();
 *   TensorNode *x = rp_graph_input(g, "x", RP_F32, ne);
 *   TensorNode *w = rp_graph_weight(g, "w", &view);
 *   TensorNode *y = rp_mul_mat(g, w, rp_rms_norm(g, x, NULL, 1e-5f));
 *   rp_node_set_name(y, "y");
 *   RP_TRY(rp_graph_finish(g, &y, 1));      // the first error of any call above
 *   rp_graph_free(g);
 *
 * A node is its output tensor: dtype, ne, nb (tensor.h). Nodes are kept in the order of their creation, which is a
 * topological order by construction (I1); their shapes never change (I2). A node lives until rp_graph_free and its
 * address never changes, but passes may take it out of the graph: afterwards use outputs and the nodes that
 * rp_graph_node and rp_graph_find return.
 * Errors stick: after a failure every builder call returns NULL and changes nothing. So model code needs no checks, and
 * rp_graph_finish reports the first failure with op, node and shapes. NULL graphs and NULL required sources count as
 * failures. One thread at a time may change a graph.
 */
#ifndef REPRISE_GRAPH_H
#define REPRISE_GRAPH_H

#include "reprise/ops.h"
#include "reprise/status.h"
#include "reprise/tensor.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ComputeGraph ComputeGraph;
typedef struct TensorNode   TensorNode;

RP_API ComputeGraph *rp_graph_new(void);    /* NULL if out of memory; the caller frees it */
RP_API void rp_graph_free(ComputeGraph *g); /* with all its nodes; NULL is allowed; plans of the graph go first */

/* Leaves; inputs and states are contiguous. An input is written before each run. A state is zero at first and keeps its
 * contents between runs. A weight is constant; `view` is copied, the memory that it describes is borrowed and must
 * outlive every executor of the graph. Names are copied and must be unique among leaves. Sticky: RP_E_DTYPE, RP_E_SHAPE
 * for a dimension below 1 or rows that are not whole blocks, RP_E_ARG for a weight without data, RP_E_STATE for a
 * finished graph. */
RP_API TensorNode *rp_graph_input(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);
RP_API TensorNode *rp_graph_state(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);
RP_API TensorNode *rp_graph_weight(ComputeGraph *g, const char *name, const RpTensorView *view);

/* Adds any op of ops.h or extend.h that is not fused. `src` has n_src entries, NULL for an absent optional source;
 * optional sources at the end may be left out. Parameters are copied; NULL: all zero. Returns the result node.
 * Sticky: RP_E_DTYPE, RP_E_SHAPE, RP_E_ARG, RP_E_NOMEM, and RP_E_STATE for a fused op or a finished graph. */
RP_API TensorNode *rp_graph_op(ComputeGraph *g, TensorOp op, const RpOpParams *params, TensorNode *const src[],
                               int n_src);

/* ---- rp_graph_op with the parameters spelt out ----
 *
 * Each comment gives shapes only, innermost dimension first: ops.h has the formulas. t counts tokens, h heads, m and n
 * elements of a row. The type is f32 if none is given; a weight type is f32, f16, bf16 or a block type. Rows are
 * contiguous (nb[0] is one element or block); `any` is any shape. Parameters are copied. */

/* table w [n,rows] of any weight type, ids i32 [t] -> [n,t] */
RP_API TensorNode *rp_get_rows(ComputeGraph *g, TensorNode *w, TensorNode *ids);

/* x any, w [n] or NULL -> like x */
RP_API TensorNode *rp_rms_norm(ComputeGraph *g, TensorNode *x, TensorNode *w_or_null, float eps);

/* w [k,m,h_w,b_w] of any weight type, x [k,t,h,b] -> [m,t,h,b]; h_w divides h, b_w divides b */
RP_API TensorNode *rp_mul_mat(ComputeGraph *g, TensorNode *w, TensorNode *x);

/* The same, limited to the positions in use: pos i32 [t], and a bound that is not RP_BOUND_NONE. */
RP_API TensorNode *rp_mul_mat_bound(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *pos,
                                    RpMulMatBound bound);

/* x [n,h,t], pos i32 [t], frequency factors [n_dims/2] or NULL -> like x */
RP_API TensorNode *rp_rope(ComputeGraph *g, TensorNode *x, TensorNode *pos, TensorNode *factors_or_null,
                           const RpRopeParams *params);

/* x [n,t,h], mask f32 or f16 [n,t] or NULL, pos i32 [t] or NULL -> like x */
RP_API TensorNode *rp_soft_max(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                               const RpSoftMaxParams *params);

/* The same with attention sinks [h], one per head, or NULL. */
RP_API TensorNode *rp_soft_max_sinks(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                                     TensorNode *sinks_or_null, const RpSoftMaxParams *params);

/* q [d,t,h], k and v f16, q8_0 or f32 [d,n_ctx,h_kv], pos i32 [t], sinks [h] or NULL -> [d,h,t], or q8_act [d*h,t].
 * Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867). With f16 keys and values the attention pass makes
 * this op out of mul_mat, soft_max and mul_mat. q8_0 keys and values can only be used through it. f32 keys and values
 * allow a batch, no positions and a mask, as the row of the op in ops.h says; the mask is source 5 of rp_graph_op. */
RP_API TensorNode *rp_attention(ComputeGraph *g, TensorNode *q, TensorNode *k, TensorNode *v, TensorNode *pos,
                                TensorNode *sinks_or_null, const RpAttentionParams *params);

/* x any -> like x */
RP_API TensorNode *rp_silu(ComputeGraph *g, TensorNode *x);
RP_API TensorNode *rp_sigmoid(ComputeGraph *g, TensorNode *x);

/* gate any, up like gate -> like gate; limit > 0 */
RP_API TensorNode *rp_swiglu_oai(ComputeGraph *g, TensorNode *gate, TensorNode *up, float alpha, float limit);

/* x any -> like x */
RP_API TensorNode *rp_gelu(ComputeGraph *g, TensorNode *x, RpGeluKind kind);

/* a any, b: each of its dimensions divides that of a and repeats -> like a */
RP_API TensorNode *rp_mul(ComputeGraph *g, TensorNode *a, TensorNode *b);
RP_API TensorNode *rp_add(ComputeGraph *g, TensorNode *a, TensorNode *b);

/* x any -> like x */
RP_API TensorNode *rp_scale(ComputeGraph *g, TensorNode *x, float scale, float bias);

/* Mixture of experts; k experts are selected per token. The ids are data (I4): neither shapes nor addresses depend on
 * which experts are selected. */

/* x [n,t], bias [n] or NULL -> ids i32 [k,t] */
RP_API TensorNode *rp_top_k(ComputeGraph *g, TensorNode *x, TensorNode *bias_or_null, const RpTopKParams *params);

/* probs [n,t], ids i32 [k,t] -> [k,t] */
RP_API TensorNode *rp_route(ComputeGraph *g, TensorNode *probs, TensorNode *ids, const RpRouteParams *params);

/* w [n,m,experts] of any weight type, x [n,1,t] or [n,k,t], ids i32 [k,t] -> [m,k,t] */
RP_API TensorNode *rp_mul_mat_id(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *ids);

/* x [m,k,t], b [m,experts], ids i32 [k,t] -> like x */
RP_API TensorNode *rp_add_id(ComputeGraph *g, TensorNode *x, TensorNode *b, TensorNode *ids);

/* x [n,k,t], weights [k,t] -> [n,t] */
RP_API TensorNode *rp_combine(ComputeGraph *g, TensorNode *x, TensorNode *weights);

/* Op copy: x any shape and strides, f32, f16 or bf16 (for q8_0: f32) -> the same shape in dtype, contiguous */
RP_API TensorNode *rp_cast(ComputeGraph *g, TensorNode *x, RpDtype dtype);

/* Op copy into rows of `dst`, a state or a node: row pos[i] takes row i of x; rows with pos < 0 are not stored.
 * x [n,t,..], dst [n,rows,..], pos i32 [t] or NULL for rows 0, 1, ... The result is `dst` after the store: read it
 * through the result, so that the graph holds the order. */
RP_API TensorNode *rp_store(ComputeGraph *g, TensorNode *x, TensorNode *dst, TensorNode *pos_or_null);

/* logits [n], step: a state of i32 words that begins with an RpStepState (step.h), scratch: a state [2n]. Samples the
 * next token into `step`; the result is `step` after sampling. */
RP_API TensorNode *rp_sample(ComputeGraph *g, TensorNode *logits, TensorNode *step, TensorNode *scratch);

/* Views: they compute nothing, the result is the memory of x. Offsets and strides in bytes. rp_reshape needs a
 * contiguous x; dimension i of x becomes dimension axis_i of rp_permute; rp_transpose swaps dimensions 0 and 1. */
RP_API TensorNode *rp_view(ComputeGraph *g, TensorNode *x, const RpViewParams *params);
RP_API TensorNode *rp_reshape(ComputeGraph *g, TensorNode *x, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
RP_API TensorNode *rp_permute(ComputeGraph *g, TensorNode *x, int axis0, int axis1, int axis2, int axis3);
RP_API TensorNode *rp_transpose(ComputeGraph *g, TensorNode *x);

/* Nodes created from now on belong to this layer in dumps and reports; -1, the initial value: to none. */
RP_API void rp_graph_set_layer(ComputeGraph *g, int layer);

/* Copies the name. Returns the node, so that calls can be nested; a NULL node or name changes nothing. */
RP_API TensorNode *rp_node_set_name(TensorNode *node, const char *name);

/* Adds the nodes that compute the gradients of `loss`, f32 of any shape, whose elements are summed, with respect to
 * params[n_params]: leaves or nodes of type f32, f16 or bf16. grads[i] is set to the gradient of params[i], contiguous
 * f32 of its shape, a node of the graph like any other. Call it after the last node of the loss and before
 * rp_graph_finish; the arrays are borrowed for the call. Only nodes between a parameter and the loss get gradients, and
 * quantised weights pass them on to their activations. The bits do not depend on the number of threads. RP_E_ARG for a
 * parameter that the loss does not depend on or a bad argument, RP_E_DTYPE for another type, RP_E_STATE for a finished
 * graph, RP_E_UNSUPPORTED, with op and node, for an op without a gradient rule (docs/training.md), RP_E_NOMEM. After
 * a failure while nodes are added the error of the graph is set and `grads` means nothing. */
RP_API RP_NODISCARD RpStatus rp_graph_backward(ComputeGraph *g, TensorNode *loss, TensorNode *const params[],
                                               int n_params, TensorNode *grads[]);

/* Saves memory in training, at the price of time (activation recomputation). rp_graph_backward then adds the nodes of
 * each layer (rp_graph_set_layer) a second time, in front of the layer's backward nodes, which read the second copy. So
 * the memory of the first copy is free as soon as the forward pass has left the layer. Results of other layers that a
 * layer reads are kept. The bits of the gradients are the same. Nodes without a layer, and layers with a store, are not
 * computed again. Off in a new graph; NULL changes nothing. */
RP_API void rp_graph_set_recompute(ComputeGraph *g, bool on);

/* Ends the construction: checks order, shapes and names, and removes every node that no output and no store into a
 * state needs. Outputs must be computed nodes. Returns the first error of the whole construction, also RP_E_NOMEM for a
 * NULL graph; RP_E_ARG for bad outputs or two leaves of one name; RP_E_STATE if the graph is finished already.
 * `outputs` is borrowed for the call. */
RP_API RP_NODISCARD RpStatus rp_graph_finish(ComputeGraph *g, TensorNode *const outputs[], int n_outputs);

/* ---- passes: fuse ops and quantise activations (docs/passes.md) ---- */

/* Runs the passes in order on a finished graph and verifies the graph after each. `disable` is a comma-separated list
 * of -NAME (off) and +NAME (on again), such as "-attention,-quantize" or "-all,+norm"; NULL: REPRISE_PASSES.
 * RP_E_ARG for an unknown name and RP_E_STATE for an unfinished graph: the graph is unchanged. RP_E_UNSUPPORTED if a
 * quantised KV cache needs the attention pass, which is off. After any other failure the graph can only be freed. */
RP_API RP_NODISCARD RpStatus rp_graph_optimize(ComputeGraph *g, const char *disable);

/* The same up to and including the pass `last`, to look at a graph between passes; NULL: all. RP_E_ARG for an unknown
 * name. */
RP_API RP_NODISCARD RpStatus rp_graph_optimize_to(ComputeGraph *g, const char *disable, const char *last);

/* The passes in order, with registered patterns (extend.h) at the end. NULL outside 0 <= i < count; a registered pass
 * may have no help (NULL). The texts are static storage, or those with which a pass was registered. */
RP_API int         rp_pass_count(void);
RP_API const char *rp_pass_name(int i);
RP_API const char *rp_pass_help(int i);

/* Checks I1 (sources before readers), I2 (dtypes and shapes as the op table infers them) and stores: nothing reads
 * memory that a later store has overwritten. The error names node, op and shape. */
RP_API RP_NODISCARD RpStatus rp_graph_verify(const ComputeGraph *g);

/* ---- reading a graph; nodes and texts are owned by the graph ---- */

/* rp_graph_node(g, number) is the node. -1: a pass took it out of the graph. */
RP_API int rp_node_number(const TensorNode *node);

RP_API int               rp_graph_n_nodes(const ComputeGraph *g);     /* with leaves and views */
RP_API int               rp_graph_n_steps(const ComputeGraph *g);     /* nodes that run a kernel */
RP_API const TensorNode *rp_graph_node(const ComputeGraph *g, int i); /* NULL outside 0 <= i < n_nodes */
/* The first output of that name, else the first node of it, or NULL. */
RP_API const TensorNode *rp_graph_find(const ComputeGraph *g, const char *name);
RP_API const char       *rp_node_name(const TensorNode *node);          /* "" without a name */
RP_API const char       *rp_node_op_name(const TensorNode *node);       /* "weight", "input" and "state" for leaves */
RP_API const char  *rp_node_source_name(const TensorNode *node, int i); /* of source i of its op; "" if there is none */
RP_API RpTensorView rp_node_view(const TensorNode *node);               /* data is NULL except for weights */
RP_API int          rp_node_layer(const TensorNode *node);              /* -1: none */
RP_API bool         rp_node_is_output(const TensorNode *node);          /* as given to rp_graph_finish */

/* ---- where a node comes from ----
 *
 * Passes record which built nodes each node does the work of, so that results can be traced back to the model code:
 *
 *     "blk.0.attn_residual" linear, built as add    origins: mul_mat, add, add    passes: linear, residual
 *
 * A built node that stands for a norm or a quantisation may be an origin of several nodes, which each compute it. */

/* Its place in the order of building; -1: a pass made it. */
RP_API int rp_node_built(const TensorNode *node);

/* Name of the op with which it was built, or made by a pass; for a leaf as rp_node_op_name. Static storage. */
RP_API const char *rp_node_built_op(const TensorNode *node);

/* The built nodes whose work the node does, in the order of building; the only origin of a node that no pass changed is
 * the node itself. An origin may have been taken out of the graph: its name, layer and built op remain. NULL outside 0
 * <= i < n. A node that a pass made may have no origin, such as the quantisation of an activation. */
RP_API int               rp_node_n_origins(const TensorNode *node);
RP_API const TensorNode *rp_node_origin(const TensorNode *node, int i);

/* Name of the i-th pass that made or changed the node, or a node that it has replaced, in the order of the passes; NULL
 * past the last. */
RP_API const char *rp_node_pass(const TensorNode *node, int i);

/* ---- dumps ----
 *
 * DOT draws each layer as a cluster, colours ops by kind and gives weights, inputs and states different shapes. JSON is
 * one object with "nodes" in execution order; an absent source between present ones is null in "sources".
 * "source_names" are those of ops.h, "" where a custom op names none. "colour" is that of the op in DOT. */
typedef enum RpDumpFormat { RP_DUMP_TEXT, RP_DUMP_DOT, RP_DUMP_JSON } RpDumpFormat;

/* An annotation of a node, such as its launch or its time. */
typedef struct RpDumpNote {
    char   text[96]; /* "": none */
    double heat;     /* DOT: colour from 0 (pale) to 1 (deep red); below 0: the colour of the op */
    double us;       /* JSON: its time in microseconds; 0: unknown */
} RpDumpNote;

typedef struct RpDumpOptions {
    RpDumpFormat      format;
    bool              fold;      /* DOT: draw layers of the same structure once, labelled xN */
    bool              one_layer; /* only nodes of `layer` */
    int               layer;
    const char       *title; /* or NULL; this and `notes` are borrowed for the call */
    const RpDumpNote *notes; /* or NULL: [n_nodes], by node number */
} RpDumpOptions;

/* `options` may be NULL: text. RP_E_ARG for a layer without nodes or an unknown format, RP_E_IO if `out` has an error,
 * RP_E_NOMEM, or the sticky error of the construction. */
RP_API RP_NODISCARD RpStatus        rp_graph_dump_sized(const ComputeGraph *g, const RpDumpOptions *options,
                                                        size_t options_bytes, size_t note_bytes, FILE *out);
RP_NODISCARD static inline RpStatus rp_graph_dump(const ComputeGraph *g, const RpDumpOptions *options, FILE *out) {
    return rp_graph_dump_sized(g, options, sizeof *options, sizeof *options->notes, out);
}

#ifdef __cplusplus
}
#endif
#endif
