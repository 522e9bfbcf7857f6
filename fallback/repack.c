/* Which sources of which ops may be repacked copies (base/repack.h): weights that are multiplied by q8_act columns. */
#include "fallback/products/repack.h"
#include "ops/fused/projections.h"

/* x is q8_act already, or the prologue quantises it. */
static bool quantised(const RpTensorView *x, const RpColumnParams *c) { return x->dtype == RP_Q8_ACT || c->round != 0; }

/* The workers of qkv take whole heads, and a head must be whole groups of rows. */
static bool is_of_qkv(const RpOpArgs *args, const RpTensorView *w) {
    const RpQkvParams *p = &args->params->qkv;
    return (w == &args->qkv.wq || w == &args->qkv.wk || w == &args->qkv.wv) && p->head_dim % RP_PANEL_ROWS == 0 &&
           quantised(&args->qkv.x, &p->column);
}

static bool is_of_projections(const RpOpArgs *args, const RpTensorView *w) {
    for (int i = 0; i < RP_PROJECTIONS; i++)
        if (w == rp_projection(args, i)) return quantised(&args->projections.x, &args->params->projections.column);
    return false;
}

bool rp_cpu_repack_pays(void) { return rp_dot_kernels().repacked != NULL; }

bool rp_cpu_can_repack(TensorOp op, const RpOpArgs *args, int k) {
    const RpTensorView *w = &args->src[k];
    if (!rp_is_present(w) || !rp_can_repack(w)) return false;
    switch (op) {
    case RP_OP_MUL_MAT:
        return w == &args->mul_mat.w && args->mul_mat.x.dtype == RP_Q8_ACT &&
               args->params->mul_mat.bound == RP_BOUND_NONE;
    case RP_OP_MUL_MAT_ID:
        return w == &args->mul_mat_id.w && args->mul_mat_id.x.dtype == RP_Q8_ACT;
    case RP_OP_LINEAR:
        return w == &args->linear.w && quantised(&args->linear.x, &args->params->linear.column);
    case RP_OP_GATE_UP:
        return (w == &args->gate_up.gate || w == &args->gate_up.up || w == &args->gate_up.shared_gate ||
                w == &args->gate_up.shared_up) &&
               quantised(&args->gate_up.x, &args->params->gate_up.column);
    case RP_OP_EXPERTS_DOWN:
        return (w == &args->experts_down.w || w == &args->experts_down.shared) &&
               args->experts_down.x.dtype == RP_Q8_ACT;
    case RP_OP_QKV:
        return is_of_qkv(args, w);
    case RP_OP_PROJECTIONS:
        return is_of_projections(args, w);
    default:
        return false;
    }
}
