/* Shape rules of the views, which run no kernel: they reinterpret the memory of their source. A view may
 * not leave the extent of its source, and its rows are whole quantisation blocks. */
#include "graph/shape.h"

/* The quants, scales and sums of a q8_act row are three planes, so rows cannot be split, joined or begin elsewhere. */
static bool keeps_rows(const RpTensorView *x, const RpViewParams *p) {
    bool keeps = p->ne[0] == x->ne[0] && p->offset % x->nb[1] == 0;
    for (int i = 1; i < RP_MAX_DIMS; i++) keeps = keeps && (p->ne[i] == 1 || p->nb[i] % x->nb[1] == 0);
    return keeps;
}

SHAPE_RULE(view) {
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
            REFUSE(RP_E_SHAPE, "the view leaves its source");
        whole = whole && (i == 0 || p->ne[i] == 1 || p->nb[i] % unit == 0);
    }
    if (p->ne[0] % info->block_elems != 0) REFUSE(RP_E_SHAPE, "rows must be whole blocks");
    if (p->ne[0] > rp_view_elems(x)) REFUSE(RP_E_SHAPE, "the view leaves its source");
    if (p->offset > limit || rp_view_extent_bytes(out) > limit - p->offset)
        REFUSE(RP_E_SHAPE, "the view leaves its source");
    if (!whole && info->block_elems == 1)
        REFUSE(RP_E_SHAPE, "the offset and the strides must be whole elements");
    if (!whole) REFUSE(RP_E_SHAPE, "the offset and the strides must be whole blocks");
    if (x->dtype == RP_Q8_ACT && !keeps_rows(x, p)) REFUSE(RP_E_SHAPE, "q8_act rows keep their length");
    return RP_OK;
}

SHAPE_RULE(reshape) {
    const RpTensorView *x    = in->reshape.x;
    int64_t             left = rp_view_elems(x);
    if (!rp_view_is_contiguous(x)) REFUSE(RP_E_SHAPE, "the source must be contiguous");
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int64_t n = params->reshape.ne[i];
        if (n <= 0) REFUSE(RP_E_SHAPE, "dimensions must be positive");
        if (left % n != 0) REFUSE(RP_E_SHAPE, "the number of elements would change");
        left /= n;
    }
    if (left != 1) REFUSE(RP_E_SHAPE, "the number of elements would change");
    if (params->reshape.ne[0] % rp_dtype_info(x->dtype)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "rows must be whole blocks");
    if (x->dtype == RP_Q8_ACT && params->reshape.ne[0] != x->ne[0])
        REFUSE(RP_E_SHAPE, "q8_act rows keep their length");
    *out = rp_view_contiguous(x->dtype, params->reshape.ne, NULL);
    return RP_OK;
}

SHAPE_RULE(permute) {
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
    if (params->permute.axis[0] != 0 && rp_dtype_is_quant(x->dtype))
        REFUSE(RP_E_SHAPE, "rows of quantisation blocks cannot be permuted");
    return RP_OK;
}

SHAPE_RULE(transpose) {
    (void)params;
    const RpOpParams swap = {.permute = {.axis = {1, 0, 2, 3}}};
    return rp_shape_permute(in, &swap, out, why);
}

/* i32 words as one row of q8_act: 11 words are a block of 32 elements. */
static RpStatus words_as_q8_act(const RpTensorView *x, RpTensorView *out, const char **why) {
    const RpDtypeInfo *to    = rp_dtype_info(RP_Q8_ACT);
    const int64_t      words = to->block_bytes / 4;
    if (x->dtype != RP_I32 || !rp_view_is_contiguous(x) || rp_view_rows(x) != 1 || x->ne[0] % words != 0)
        REFUSE(RP_E_DTYPE, "q8_act takes one contiguous row of i32, 11 words for each block of 32 elements");
    *out = rp_view_contiguous(RP_Q8_ACT, (int64_t[]){x->ne[0] / words * to->block_elems, 1, 1, 1}, NULL);
    return RP_OK;
}

SHAPE_RULE(bits) {
    const RpTensorView *x    = in->bits.x;
    const RpDtypeInfo  *info = rp_dtype_info(params->bits.dtype), *from = rp_dtype_info(x->dtype);
    if (info == NULL) REFUSE(RP_E_DTYPE, "unknown dtype");
    if (params->bits.dtype == RP_Q8_ACT) return words_as_q8_act(x, out, why);
    if (info->block_elems != 1 || from->block_elems != 1 || info->block_bytes != from->block_bytes)
        REFUSE(RP_E_DTYPE, "both dtypes must be plain numbers of the same size");
    *out       = *x;
    out->dtype = params->bits.dtype;
    out->data  = NULL;
    return RP_OK;
}

SHAPE_RULE(after) {
    (void)params, (void)why;
    *out      = *in->after.x;
    out->data = NULL;
    return RP_OK;
}
