/* View `view`: any part of the source, which it may not leave; rows are whole quantisation blocks. */
#include "ops/op.h"

/* The quants, scales and sums of a q8_act row are three planes, so rows cannot be split, joined or begin elsewhere. */
static bool keeps_rows(const RpTensorView *x, const RpViewParams *p) {
    bool keeps = p->ne[0] == x->ne[0] && p->offset % x->nb[1] == 0;
    for (int i = 1; i < RP_MAX_DIMS; i++) keeps = keeps && (p->ne[i] == 1 || p->nb[i] % x->nb[1] == 0);
    return keeps;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x     = in->view.x;
    const RpViewParams *p     = &params->view;
    const RpDtypeInfo  *info  = rp_dtype_info(x->dtype);
    const size_t        unit  = (size_t)info->block_bytes;
    const size_t        limit = rp_view_extent_bytes(x);
    bool                whole = p->offset % unit == 0;
    *out                      = (RpTensorView){.dtype = x->dtype};
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        if (p->ne[i] <= 0) REFUSE(RP_E_SHAPE, "dimensions must be positive");
        out->ne[i] = p->ne[i];
        out->nb[i] = i == 0 ? x->nb[0] : p->nb[i];
        /* Each stride alone must fit, so that the sum in rp_view_extent_bytes below cannot overflow. */
        if (p->ne[i] > 1 && i > 0 && p->nb[i] > limit / (size_t)(p->ne[i] - 1))
            REFUSE(RP_E_SHAPE, "the view must lie within its source");
        whole = whole && (i == 0 || p->ne[i] == 1 || p->nb[i] % unit == 0);
    }
    if (p->ne[0] % info->block_elems != 0) REFUSE(RP_E_SHAPE, "rows must be whole blocks");
    if (p->ne[0] > rp_view_elems(x)) REFUSE(RP_E_SHAPE, "the view must lie within its source");
    if (p->offset > limit || rp_view_extent_bytes(out) > limit - p->offset)
        REFUSE(RP_E_SHAPE, "the view must lie within its source");
    if (!whole && info->block_elems == 1) REFUSE(RP_E_SHAPE, "the offset and the strides must be whole elements");
    if (!whole) REFUSE(RP_E_SHAPE, "the offset and the strides must be whole blocks");
    if (x->dtype == RP_Q8_ACT && !keeps_rows(x, p)) REFUSE(RP_E_SHAPE, "rows of q8_act must keep their length");
    return RP_OK;
}

/* True if no two elements of the view share memory, for strides that do not decrease. */
static bool is_disjoint(const RpTensorView *v) {
    size_t end = v->nb[0] * (size_t)v->ne[0];
    for (int i = 1; i < RP_MAX_DIMS; i++) {
        if (v->ne[i] == 1) continue;
        if (v->nb[i] < end) return false;
        end = v->nb[i] * (size_t)v->ne[i];
    }
    return true;
}

/* dx is 0 outside the view: dy stored into zeros. */
static GRADIENT_RULE(gradient) {
    TensorNode        *x  = y->from.view.x;
    const RpTensorView of = rp_node_view(x);
    if (!rp_view_is_contiguous(&of) || of.dtype != RP_F32)
        return "a view of a source with gaps has no gradient; copy the source before";
    if (!is_disjoint(&y->view)) return "a view whose rows overlap or are reordered has no gradient";
    TensorNode *zeros = rp_backward_filled(b, x, 0.0f);
    TensorNode *store = rp_store(b->g, dy, rp_view(b->g, zeros, &y->params.view), NULL);
    rp_backward_give(b, x, rp_backward_after(b, zeros, store));
    return NULL;
}

const OpRules rp_rules_view = {.shape = shape, .gradient = gradient};
