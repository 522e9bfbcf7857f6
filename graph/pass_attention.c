/* cast(permute(v^T * softmax(k * q))) -> attention(q, k, v)
 *
 * The scores never reach memory, and the work is bounded by the positions in use. Matched where every
 * intermediate has this one reader, both products are bound by the same positions, and there is no mask
 * beyond them. */
#include "graph/pass.h"

static bool is_op(const TensorNode *n, TensorOp op) { return n != NULL && n->kind == NODE_OP && n->op == op; }

static bool only_use(const TensorNode *n) { return n->tag == 1; }

static bool swaps_tokens_and_heads(const TensorNode *n) {
    static const int32_t want[RP_MAX_DIMS] = {0, 2, 1, 3};
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (n->params.permute.axis[i] != want[i]) return false;
    return true;
}

static RpStatus match(TensorNode *out) {
    if (!is_op(out, RP_OP_COPY) || node_is_store(out) || out->view.dtype != RP_F32) return RP_OK;
    const TensorNode *back = out->src[0];
    if (!is_op(back, RP_OP_PERMUTE) || !only_use(back) || !swaps_tokens_and_heads(back)) return RP_OK;
    const TensorNode *sum = back->src[0];
    if (!is_op(sum, RP_OP_MUL_MAT) || !only_use(sum) || sum->params.mul_mat.bound != RP_BOUND_INNER)
        return RP_OK;
    const TensorNode *vt = sum->src[0], *probs = sum->src[1], *pos = sum->src[2];
    if (!is_op(vt, RP_OP_TRANSPOSE) || vt->view.dtype != RP_F16) return RP_OK;
    if (!is_op(probs, RP_OP_SOFT_MAX) || !only_use(probs) || probs->src[1] != NULL || probs->src[2] != pos)
        return RP_OK;
    const TensorNode *scores = probs->src[0];
    if (!is_op(scores, RP_OP_MUL_MAT) || !only_use(scores) || scores->params.mul_mat.bound != RP_BOUND_ROWS ||
        scores->src[2] != pos)
        return RP_OK;
    if (scores->src[0]->view.dtype != RP_F16 || scores->src[1]->view.dtype != RP_F32) return RP_OK;
    const OpParams params = {
        .attention = {.scale = probs->params.soft_max.scale, .window = probs->params.soft_max.window}
    };
    return rp_graph_mutate(
        out, RP_OP_ATTENTION, &params,
        (TensorNode *const[]){scores->src[1], scores->src[0], vt->src[0], sum->src[2], probs->src[3]}, 5);
}

RpStatus rp_pass_attention(ComputeGraph *g) {
    rp_graph_count_uses(g);
    for (int i = 0; i < g->n_nodes; i++) RP_TRY(match(g->nodes[i]));
    return RP_OK;
}
