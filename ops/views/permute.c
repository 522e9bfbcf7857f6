/* View `permute`: dimensions reordered. */
#include "ops/op.h"

#include "base/types/custom.h"

static SHAPE_RULE(shape) {
    const RpTensorView *x    = in->permute.x;
    unsigned            seen = 0;
    *out                     = (RpTensorView){.dtype = x->dtype};
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int to = params->permute.axis[i];
        if (to < 0 || to >= RP_MAX_DIMS || (seen & 1u << to) != 0)
            REFUSE(RP_E_SHAPE, "the axes must be a permutation of 0..3");
        seen |= 1u << to;
        out->ne[to] = x->ne[i];
        out->nb[to] = x->nb[i];
    }
    if (params->permute.axis[0] != 0 && (rp_dtype_is_quant(x->dtype) || rp_dtype_is_custom(x->dtype)))
        REFUSE(RP_E_SHAPE, "dimension 0 must keep its place where rows are of quantisation blocks");
    return RP_OK;
}

static GRADIENT_RULE(gradient) {
    int inverse[RP_MAX_DIMS];
    for (int i = 0; i < RP_MAX_DIMS; i++) inverse[y->params.permute.axis[i]] = i;
    rp_backward_give(b, y->from.permute.x, rp_permute(b->g, dy, inverse[0], inverse[1], inverse[2], inverse[3]));
    return NULL;
}

const OpRules rp_rules_permute = {.shape = shape, .gradient = gradient};
