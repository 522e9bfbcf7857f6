/* Products of quantised weights get quantised activations, so that they become integer dot products:
 *
 *     mul_mat(w, x)          ->  mul_mat(w, quantize(x))
 *     mul_mat_id(w, x, ids)  ->  mul_mat_id(w, quantize(x), ids)
 *
 * All readers of x share one quantize node. It stands directly before the first of them, which keeps the
 * order topological (I1). */
#include "graph/origin.h"
#include "graph/pass.h"

#include <stdlib.h>

/* Source x of a product of a quantised matrix and f32; NULL for other nodes. */
static TensorNode **x_to_quantise(TensorNode *n) {
    if (n->kind != NODE_OP || (n->op != RP_OP_MUL_MAT && n->op != RP_OP_MUL_MAT_ID)) return NULL;
    const bool        plain = n->op == RP_OP_MUL_MAT;
    const TensorNode *w     = plain ? n->from.mul_mat.w : n->from.mul_mat_id.w;
    TensorNode      **x     = plain ? &n->from.mul_mat.x : &n->from.mul_mat_id.x;
    const bool        whole = (*x)->view.ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems == 0;
    return rp_dtype_is_quant(w->view.dtype) && (*x)->view.dtype == RP_F32 && whole ? x : NULL;
}

RpStatus rp_pass_quantize(ComputeGraph *g) {
    const int    n_old = g->n_nodes;
    TensorNode **old   = malloc((size_t)n_old * sizeof(TensorNode *));
    TensorNode **made  = calloc((size_t)n_old, sizeof(TensorNode *)); /* by old id of x: its quantize node */
    RpStatus     st    = RP_OK;
    if (old == NULL || made == NULL) st = rp_fail(RP_E_NOMEM, "out of memory in the quantize pass");
    for (int i = 0; i < n_old && st == RP_OK; i++) {
        old[i]      = g->nodes[i];
        old[i]->tag = i;
    }
    if (st == RP_OK) g->n_nodes = 0;
    for (int i = 0; i < n_old && st == RP_OK; i++) {
        TensorNode *n = old[i], **source = x_to_quantise(n);
        if (source != NULL) {
            TensorNode *x = *source, **q = &made[x->tag];
            rp_origin_note_pass(n);
            if (*q == NULL) {
                *q = rp_graph_make_op(g, RP_OP_QUANTIZE, NULL, (TensorNode *const[]){x}, 1,
                                      x->name[0] != 0 ? x->name : x->base->name, n->layer);
                st = *q != NULL ? rp_graph_push(g, *q) : rp_fail(g->status, "%s", g->error);
                if (*q != NULL) rp_origin_note_pass(*q);
            }
            *source = *q;
        }
        if (st == RP_OK) st = rp_graph_push(g, n);
    }
    free(old);
    free(made);
    return st;
}
