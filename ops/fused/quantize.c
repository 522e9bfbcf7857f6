/* Op quantize: activations as q8_act. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->quantize.x, *y = &args->dst;
    if (x->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "x must be f32");
    if (y->dtype != RP_Q8_ACT) return rp_refuse(RP_E_DTYPE, op, args, "the result must be q8_act");
    if (x->ne[0] % 32 != 0) return rp_refuse(RP_E_SHAPE, op, args, "rows of x must be whole blocks of 32");
    if (y->ne[0] != x->ne[0] || rp_view_rows(x) != rp_view_rows(y))
        return rp_refuse(RP_E_SHAPE, op, args, "x and the result must have as many rows of one length");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *x = in->quantize.x;
    if (x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32");
    if (x->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0 || !rp_shape_contiguous_rows(x))
        REFUSE(RP_E_SHAPE, "rows must be contiguous and whole blocks of 32");
    *out = rp_view_contiguous(RP_Q8_ACT, x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_quantize = {.shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#e6f598"};
