/* The typed builder calls of reprise/graph.h, such as rp_mul_mat(g, w, x). Each one fills in the
 * parameters of its op and calls rp_graph_op, which checks sources and infers the shape. A NULL source
 * that an earlier failure left behind is harmless: the error of the graph is sticky, so every later call
 * returns NULL. */
#include "graph/graph.h"

#include <stdio.h>

/* Makes the error of a builder call without parameters stick. */
static TensorNode *without_params(ComputeGraph *g, const char *function) {
    char text[96];
    snprintf(text, sizeof text, "%s: params is NULL", function);
    if (g != NULL) rp_graph_set_error(g, RP_E_ARG, text);
    return NULL;
}

static TensorNode *one(ComputeGraph *g, TensorOp op, TensorNode *x) {
    return rp_graph_op(g, op, NULL, (TensorNode *const[]){x}, 1);
}

static TensorNode *two(ComputeGraph *g, TensorOp op, TensorNode *a, TensorNode *b) {
    return rp_graph_op(g, op, NULL, (TensorNode *const[]){a, b}, 2);
}

/* The op without ids gives all rows. Here a missing node is an error. */
TensorNode *rp_get_rows(ComputeGraph *g, TensorNode *w, TensorNode *ids) {
    if (ids == NULL && g != NULL) rp_graph_set_error(g, RP_E_ARG, "rp_get_rows: ids is NULL");
    return two(g, RP_OP_GET_ROWS, w, ids);
}

TensorNode *rp_rms_norm(ComputeGraph *g, TensorNode *x, TensorNode *w_or_null, float eps) {
    const RpOpParams p = {.rms_norm = {.eps = eps}};
    return rp_graph_op(g, RP_OP_RMS_NORM, &p, (TensorNode *const[]){x, w_or_null}, 2);
}

TensorNode *rp_mul_mat(ComputeGraph *g, TensorNode *w, TensorNode *x) { return two(g, RP_OP_MUL_MAT, w, x); }

TensorNode *rp_mul_mat_bound(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *pos, RpMulMatBound bound) {
    const RpOpParams p = {.mul_mat = {.bound = bound}};
    return rp_graph_op(g, RP_OP_MUL_MAT, &p, (TensorNode *const[]){w, x, pos}, 3);
}

TensorNode *rp_rope(ComputeGraph *g, TensorNode *x, TensorNode *pos, TensorNode *factors_or_null,
                    const RpRopeParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.rope = *params};
    return rp_graph_op(g, RP_OP_ROPE, &p, (TensorNode *const[]){x, pos, factors_or_null}, 3);
}

TensorNode *rp_soft_max(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                        const RpSoftMaxParams *params) {
    return rp_soft_max_sinks(g, x, mask_or_null, pos_or_null, NULL, params);
}

TensorNode *rp_soft_max_sinks(ComputeGraph *g, TensorNode *x, TensorNode *mask_or_null, TensorNode *pos_or_null,
                              TensorNode *sinks_or_null, const RpSoftMaxParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.soft_max = *params};
    return rp_graph_op(g, RP_OP_SOFT_MAX, &p, (TensorNode *const[]){x, mask_or_null, pos_or_null, sinks_or_null}, 4);
}

TensorNode *rp_silu(ComputeGraph *g, TensorNode *x) { return one(g, RP_OP_SILU, x); }

TensorNode *rp_sigmoid(ComputeGraph *g, TensorNode *x) { return one(g, RP_OP_SIGMOID, x); }

TensorNode *rp_swiglu_oai(ComputeGraph *g, TensorNode *gate, TensorNode *up, float alpha, float limit) {
    const RpOpParams p = {
        .swiglu_oai = {.alpha = alpha, .limit = limit}
    };
    return rp_graph_op(g, RP_OP_SWIGLU_OAI, &p, (TensorNode *const[]){gate, up}, 2);
}

TensorNode *rp_top_k(ComputeGraph *g, TensorNode *x, TensorNode *bias_or_null, const RpTopKParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.top_k = *params};
    return rp_graph_op(g, RP_OP_TOP_K, &p, (TensorNode *const[]){x, bias_or_null}, 2);
}

TensorNode *rp_attention(ComputeGraph *g, TensorNode *q, TensorNode *k, TensorNode *v, TensorNode *pos,
                         TensorNode *sinks_or_null, const RpAttentionParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.attention = *params};
    return rp_graph_op(g, RP_OP_ATTENTION, &p, (TensorNode *const[]){q, k, v, pos, sinks_or_null}, 5);
}

TensorNode *rp_route(ComputeGraph *g, TensorNode *probs, TensorNode *ids, const RpRouteParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.route = *params};
    return rp_graph_op(g, RP_OP_ROUTE, &p, (TensorNode *const[]){probs, ids}, 2);
}

TensorNode *rp_mul_mat_id(ComputeGraph *g, TensorNode *w, TensorNode *x, TensorNode *ids) {
    return rp_graph_op(g, RP_OP_MUL_MAT_ID, NULL, (TensorNode *const[]){w, x, ids}, 3);
}

TensorNode *rp_add_id(ComputeGraph *g, TensorNode *x, TensorNode *b, TensorNode *ids) {
    return rp_graph_op(g, RP_OP_ADD_ID, NULL, (TensorNode *const[]){x, b, ids}, 3);
}

TensorNode *rp_combine(ComputeGraph *g, TensorNode *x, TensorNode *weights) {
    return two(g, RP_OP_COMBINE, x, weights);
}

TensorNode *rp_gelu(ComputeGraph *g, TensorNode *x, RpGeluKind kind) {
    const RpOpParams p = {.gelu = {.kind = kind}};
    return rp_graph_op(g, RP_OP_GELU, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_mul(ComputeGraph *g, TensorNode *a, TensorNode *b) { return two(g, RP_OP_MUL, a, b); }
TensorNode *rp_add(ComputeGraph *g, TensorNode *a, TensorNode *b) { return two(g, RP_OP_ADD, a, b); }

TensorNode *rp_scale(ComputeGraph *g, TensorNode *x, float scale, float bias) {
    const RpOpParams p = {
        .scale = {.scale = scale, .bias = bias}
    };
    return rp_graph_op(g, RP_OP_SCALE, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_cast(ComputeGraph *g, TensorNode *x, RpDtype dtype) {
    const RpOpParams p = {.copy = {.dtype = dtype}};
    return rp_graph_op(g, RP_OP_COPY, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_store(ComputeGraph *g, TensorNode *x, TensorNode *dst, TensorNode *pos_or_null) {
    const RpOpParams p = {.copy = {.dtype = dst != NULL ? dst->view.dtype : RP_F32}};
    TensorNode      *y = rp_graph_op(g, RP_OP_COPY, &p, (TensorNode *const[]){x, dst, pos_or_null}, 3);
    if (y != NULL && dst == NULL) rp_graph_set_error(g, RP_E_ARG, "copy: a store needs a destination");
    return y;
}

TensorNode *rp_view(ComputeGraph *g, TensorNode *x, const RpViewParams *params) {
    if (params == NULL) return without_params(g, __func__);
    const RpOpParams p = {.view = *params};
    return rp_graph_op(g, RP_OP_VIEW, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_reshape(ComputeGraph *g, TensorNode *x, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    const RpOpParams p = {.reshape = {.ne = {ne0, ne1, ne2, ne3}}};
    return rp_graph_op(g, RP_OP_RESHAPE, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_permute(ComputeGraph *g, TensorNode *x, int axis0, int axis1, int axis2, int axis3) {
    const RpOpParams p = {.permute = {.axis = {axis0, axis1, axis2, axis3}}};
    return rp_graph_op(g, RP_OP_PERMUTE, &p, (TensorNode *const[]){x}, 1);
}

TensorNode *rp_transpose(ComputeGraph *g, TensorNode *x) { return one(g, RP_OP_TRANSPOSE, x); }

TensorNode *rp_sample(ComputeGraph *g, TensorNode *logits, TensorNode *step, TensorNode *scratch) {
    return rp_graph_op(g, RP_OP_SAMPLE, NULL, (TensorNode *const[]){logits, step, scratch}, 3);
}
