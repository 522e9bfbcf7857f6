/* graph.h - build a ComputeGraph; nothing is computed here.
 *
 *   ComputeGraph *g = rp_graph_new();
 *   TensorNode *x = rp_graph_input(g, "x", RP_F32, (int64_t[4]){n_embd, n_tok, 1, 1});
 *   TensorNode *w = rp_graph_weight(g, "w", &view);
 *   TensorNode *y = rp_mul_mat(g, w, rp_rms_norm(g, x, NULL, 1e-5f));
 *   rp_node_set_name(y, "y");
 *   RP_TRY(rp_graph_finish(g, &y, 1));      // the first error of any call above
 *
 * A node is its output tensor: dtype, ne, nb. Nodes stand in the order of their making, which is a topological order by
 * construction (I1); their shapes never change (I2). They live until rp_graph_free and their addresses never move.
 * Errors stick: after a failure every builder call returns NULL and changes nothing, so model code reads straight down
 * and rp_graph_finish reports the first failure, with op, node and shapes.
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

ComputeGraph *rp_graph_new(void); /* NULL when out of memory */
void          rp_graph_free(ComputeGraph *g);

/* Leaves. An input is written before each run; a state keeps its contents between runs; a weight is constant and its
 * memory is borrowed: it must outlive every executor of the graph. Names are copied, and must be unique among leaves. */
TensorNode *rp_graph_input(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);
TensorNode *rp_graph_state(ComputeGraph *g, const char *name, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]);
TensorNode *rp_graph_weight(ComputeGraph *g, const char *name, const TensorView *view);

/* Any op of the table that is not fused. `src` has n_src entries, NULL for an absent optional source. The calls below
 * are this one with the parameters spelt out; ops.h says what each op computes. */
TensorNode *rp_graph_op(ComputeGraph *g, TensorOp op, const OpParams *params, TensorNode *const src[], int n_src);

TensorNode *rp_get_rows(ComputeGraph *g, TensorNode *w, TensorNode *ids);
TensorNode *rp_rms_norm(ComputeGraph *g, TensorNode *x, TensorNode *w_or_null, float eps);
TensorNode *rp_mul_mat(ComputeGraph *g, TensorNode *w, TensorNode *x);
TensorNode *rp_mul_mat_bound(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *pos, MulMatBound bound);
TensorNode *rp_rope(ComputeGraph *g, TensorNode *x, TensorNode *pos, TensorNode *factors_or_null,
                    const RopeParams *params);
TensorNode *rp_soft_max(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                        const SoftMaxParams *params);
/* The same with sinks: f32 [h], one for each head, or NULL. */
TensorNode *rp_soft_max_sinks(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                              TensorNode *sinks_or_null, const SoftMaxParams *params);
/* Where keys and values are f16, the attention pass makes this of the products and the softmax. */
TensorNode *rp_attention(ComputeGraph *g, TensorNode *q, TensorNode *k, TensorNode *v, TensorNode *pos,
                         TensorNode *sinks_or_null, const AttentionParams *params);
TensorNode *rp_silu(ComputeGraph *g, TensorNode *x);
TensorNode *rp_sigmoid(ComputeGraph *g, TensorNode *x);
TensorNode *rp_swiglu_oai(ComputeGraph *g, TensorNode *gate, TensorNode *up, float alpha, float limit);
TensorNode *rp_gelu(ComputeGraph *g, TensorNode *x, GeluKind kind);
TensorNode *rp_mul(ComputeGraph *g, TensorNode *a, TensorNode *b);
TensorNode *rp_add(ComputeGraph *g, TensorNode *a, TensorNode *b);
TensorNode *rp_scale(ComputeGraph *g, TensorNode *x, float scale, float bias);
/* Experts. Their ids are data: nothing of the graph depends on which are chosen. */
TensorNode *rp_top_k(ComputeGraph *g, TensorNode *x, TensorNode *bias_or_null, const TopKParams *params);
TensorNode *rp_route(ComputeGraph *g, TensorNode *probs, TensorNode *ids, const RouteParams *params);
TensorNode *rp_mul_mat_id(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *ids);
TensorNode *rp_add_id(ComputeGraph *g, TensorNode *x, TensorNode *b, TensorNode *ids);
TensorNode *rp_combine(ComputeGraph *g, TensorNode *x, TensorNode *weights);
TensorNode *rp_cast(ComputeGraph *g, TensorNode *x, RpDtype dtype); /* COPY: packed, converted */
/* COPY into rows of `dst`, a state or a node, at the positions `pos`: i32 [t], or NULL for rows 0, 1, ... The result
 * is `dst` after the store: read it through the result, so that the order is in the graph. */
TensorNode *rp_store(ComputeGraph *g, TensorNode *x, TensorNode *dst, TensorNode *pos_or_null);
/* The next token from logits f32 [n] into `step`, a state that begins with a StepState (step.h); scratch is a state f32
 * [2n]. The result is `step` after the draw. */
TensorNode *rp_sample(ComputeGraph *g, TensorNode *logits, TensorNode *step, TensorNode *scratch);
TensorNode *rp_view(ComputeGraph *g, TensorNode *x, const ViewParams *params);
TensorNode *rp_reshape(ComputeGraph *g, TensorNode *x, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
TensorNode *rp_permute(ComputeGraph *g, TensorNode *x, int axis0, int axis1, int axis2, int axis3);
TensorNode *rp_transpose(ComputeGraph *g, TensorNode *x);

/* Nodes made from now on belong to this layer (-1: to none) in dumps and reports. */
void rp_graph_set_layer(ComputeGraph *g, int layer);

/* Copied; NULL nodes are passed over. Returns the node, so that a name can be given in place. */
TensorNode *rp_node_set_name(TensorNode *node, const char *name);

/* Ends building: checks order, shapes and names, and drops every node that no output needs (a store into a state counts
 * as needed). After it the graph takes no more nodes. Returns the first error of the whole construction. */
RP_NODISCARD RpStatus rp_graph_finish(ComputeGraph *g, TensorNode *const outputs[], int n_outputs);

/* Passes. rp_graph_optimize runs all of them in the order of the table, on a finished graph, and verifies the
 * graph after each. `disable` is a comma-separated list such as "-attention,-quantize", or "-all"; NULL means
 * REPRISE_PASSES. A name that is no pass is RP_E_ARG. */
RP_NODISCARD RpStatus rp_graph_optimize(ComputeGraph *g, const char *disable);
/* The same up to the pass `last` and no further, for a look between passes; NULL: all. RP_E_ARG for a name that is none. */
RP_NODISCARD RpStatus rp_graph_optimize_to(ComputeGraph *g, const char *disable, const char *last);
int                   rp_pass_count(void);
const char           *rp_pass_name(int i);
const char           *rp_pass_help(int i);

/* I1, I2 and single writers: shapes and dtypes are what the op table says, sources stand before their readers. */
RP_NODISCARD RpStatus rp_graph_verify(const ComputeGraph *g);

/* Reading a graph. */
int               rp_node_number(const TensorNode *node); /* its place: rp_graph_node(g, number) is the node */
int               rp_graph_n_nodes(const ComputeGraph *g); /* with leaves and views */
int               rp_graph_n_steps(const ComputeGraph *g); /* nodes that run a kernel */
const TensorNode *rp_graph_node(const ComputeGraph *g, int i);
const TensorNode *rp_graph_find(const ComputeGraph *g, const char *name); /* the first of that name, or NULL */
const char       *rp_node_name(const TensorNode *node);
const char       *rp_node_op_name(const TensorNode *node); /* "weight", "input" and "state" for leaves */
TensorView        rp_node_view(const TensorNode *node);    /* data is NULL but for weights */
int               rp_node_layer(const TensorNode *node);
bool              rp_node_is_output(const TensorNode *node); /* as given to rp_graph_finish */

/* Dumps. DOT has a cluster a layer, ops coloured by kind, leaves and states in shapes of their own; `fold` draws
 * each kind of layer once, as xN. JSON is one object with "nodes" in execution order; of its "sources" an optional one
 * that is left out before another is null. */
typedef enum DumpFormat { RP_DUMP_TEXT, RP_DUMP_DOT, RP_DUMP_JSON } DumpFormat;

/* Something to say of a node: a launch, a time. */
typedef struct DumpNote {
    char   text[96]; /* "": nothing */
    double heat;     /* 0 to 1: how deep its colour is in a picture; below 0: the colour of its op */
    double us;       /* in JSON: microseconds that it takes; 0: not known */
} DumpNote;

typedef struct DumpOptions {
    DumpFormat  format;
    bool        fold;
    bool        one_layer; /* only nodes of `layer` */
    int         layer;
    const char *title; /* or NULL */
    const DumpNote *notes; /* or NULL: of each node, by its number */
} DumpOptions;

RP_NODISCARD RpStatus rp_graph_dump(const ComputeGraph *g, const DumpOptions *options, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
