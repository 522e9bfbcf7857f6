/* The helpers of the gradient rules that are calls of reprise/graph.h (backward.h). Helpers that need the internals of
 * a graph are in graph/backward.c. */
#include "ops/backward.h"

#include "base/types/custom.h"

#include <string.h>

const char *rp_gradient_none(Backward *b, const OpNode *y, TensorNode *dy) {
    (void)b, (void)y, (void)dy;
    return "this op has no gradient rule";
}

/* It is never called: a node of such an op needs no gradient. */
const char *rp_gradient_constant(Backward *b, const OpNode *y, TensorNode *dy) {
    (void)b, (void)y, (void)dy;
    return "this op is constant";
}

TensorNode *rp_backward_contiguous(Backward *b, TensorNode *x) {
    const RpTensorView v = rp_node_view(x);
    return x == NULL || (v.dtype == RP_F32 && rp_view_is_contiguous(&v)) ? x : rp_cast(b->g, x, RP_F32);
}

TensorNode *rp_backward_as_f32(Backward *b, TensorNode *w) {
    const RpTensorView v = rp_node_view(w);
    if (w == NULL) return NULL;
    if (!rp_dtype_is_quant(v.dtype) && !rp_dtype_is_custom(v.dtype))
        return v.dtype == RP_F32 ? w : rp_cast(b->g, w, RP_F32);
    TensorNode *rows = rp_backward_shaped(b, w, v.ne[0], rp_view_rows(&v), 1, 1);
    return rp_backward_like(b, rp_backward_op(b, RP_OP_GET_ROWS, NULL, rows, NULL, NULL), w);
}

TensorNode *rp_backward_op(Backward *b, TensorOp op, const RpOpParams *p, TensorNode *s0, TensorNode *s1,
                           TensorNode *s2) {
    return rp_graph_op(b->g, op, p, (TensorNode *const[]){s0, s1, s2}, s2 != NULL ? 3 : s1 != NULL ? 2 : 1);
}

TensorNode *rp_backward_shaped(Backward *b, TensorNode *x, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return rp_reshape(b->g, x, n0, n1, n2, n3);
}

TensorNode *rp_backward_like(Backward *b, TensorNode *x, const TensorNode *of) {
    const RpTensorView v = rp_node_view(of);
    return rp_backward_shaped(b, x, v.ne[0], v.ne[1], v.ne[2], v.ne[3]);
}

TensorNode *rp_backward_sum_to(Backward *b, TensorNode *dy, const int64_t ne[RP_MAX_DIMS]) {
    const RpTensorView v = rp_node_view(dy);
    if (dy == NULL || memcmp(v.ne, ne, sizeof v.ne) == 0) return dy;
    RpOpParams p = {0};
    memcpy(p.repeat_backward.ne, ne, sizeof p.repeat_backward.ne);
    return rp_backward_op(b, RP_OP_REPEAT_BACKWARD, &p, dy, NULL, NULL);
}

TensorNode *rp_backward_sum_like(Backward *b, TensorNode *dy, const TensorNode *of) {
    return rp_backward_sum_to(b, dy, rp_node_view(of).ne);
}

TensorNode *rp_backward_filled(Backward *b, const TensorNode *x, float value) {
    const RpTensorView v = rp_node_view(x);
    RpOpParams         p = {.fill = {.value = value}};
    if (x == NULL) return NULL;
    memcpy(p.fill.ne, v.ne, sizeof p.fill.ne);
    return rp_graph_op(b->g, RP_OP_FILL, &p, NULL, 0);
}

TensorNode *rp_backward_buffer_like(Backward *b, const TensorNode *x) { return rp_backward_filled(b, x, 0.0f); }

TensorNode *rp_backward_buffer_of_rows(Backward *b, const TensorNode *x, int64_t n) {
    const RpTensorView v = rp_node_view(x);
    const RpOpParams   p = {.fill = {.ne = {n * rp_view_rows(&v), 1, 1, 1}}};
    return x != NULL ? rp_graph_op(b->g, RP_OP_FILL, &p, NULL, 0) : NULL;
}
