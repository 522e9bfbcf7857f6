/* View `bits`: the same memory as another dtype. */
#include "ops/op.h"

/* i32 words as one row of q8_act: 11 words are a block of 32 elements. */
static RpStatus words_as_q8_act(const RpTensorView *x, RpTensorView *out, const char **why) {
    const RpDtypeInfo *to    = rp_dtype_info(RP_Q8_ACT);
    const int64_t      words = to->block_bytes / 4;
    if (x->dtype != RP_I32 || !rp_view_is_contiguous(x) || rp_view_rows(x) != 1 || x->ne[0] % words != 0)
        REFUSE(RP_E_DTYPE, "the source must be one contiguous row of i32 of 11 words for each block of 32 elements");
    *out = rp_view_contiguous(RP_Q8_ACT, (int64_t[]){x->ne[0] / words * to->block_elems, 1, 1, 1}, NULL);
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *x    = in->bits.x;
    const RpDtypeInfo  *info = rp_dtype_info(params->bits.dtype), *from = rp_dtype_info(x->dtype);
    if (info == NULL) REFUSE(RP_E_DTYPE, "dtype must be a known type");
    if (params->bits.dtype == RP_Q8_ACT) return words_as_q8_act(x, out, why);
    if (info->block_elems != 1 || from->block_elems != 1 || info->block_bytes != from->block_bytes)
        REFUSE(RP_E_DTYPE, "both dtypes must be plain numbers of the same size");
    *out       = *x;
    out->dtype = params->bits.dtype;
    out->data  = NULL;
    return RP_OK;
}

const OpRules rp_rules_bits = {.shape = shape, .gradient = rp_gradient_none};
