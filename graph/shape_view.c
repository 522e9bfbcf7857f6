/* Shape rules of the views: the same memory, seen otherwise. */
#include "graph/op_table.h"

#define REFUSE(text) return *why = (text), RP_E_SHAPE

#define SHAPE_RULE(name)                                                                                     \
    RpStatus rp_shape_##name(const TensorView *const src[RP_MAX_SRC], const OpParams *params,                \
                             TensorView *out, const char **why)

SHAPE_RULE(view) {
    const TensorView *x     = src[0];
    const ViewParams *p     = &params->view;
    const int         block = rp_dtype_info(x->dtype)->block_elems;
    *out                    = (TensorView){.dtype = x->dtype};
    size_t limit            = rp_view_span_bytes(x);
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        if (p->ne[i] <= 0) REFUSE("dimensions must be positive");
        out->ne[i] = p->ne[i];
        out->nb[i] = i == 0 ? x->nb[0] : p->nb[i];
        if (p->ne[i] > 1 && i > 0 && p->nb[i] > limit / (size_t)(p->ne[i] - 1))
            REFUSE("the view leaves its source");
    }
    if (p->ne[0] % block != 0) REFUSE("rows must be whole blocks");
    if (p->ne[0] > rp_view_elems(x)) REFUSE("the view leaves its source");
    if (p->offset > limit || rp_view_span_bytes(out) > limit - p->offset)
        REFUSE("the view leaves its source");
    if (p->offset % (size_t)rp_dtype_info(x->dtype)->block_bytes != 0 && block == 1)
        REFUSE("the offset must be a whole number of elements");
    return RP_OK;
}

SHAPE_RULE(reshape) {
    const TensorView *x    = src[0];
    int64_t           left = rp_view_elems(x);
    if (!rp_view_is_packed(x)) REFUSE("the source must be packed");
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int64_t n = params->reshape.ne[i];
        if (n <= 0) REFUSE("dimensions must be positive");
        if (left % n != 0) REFUSE("the number of elements would change");
        left /= n;
    }
    if (left != 1) REFUSE("the number of elements would change");
    if (params->reshape.ne[0] % rp_dtype_info(x->dtype)->block_elems != 0)
        REFUSE("rows must be whole blocks");
    if (x->dtype == RP_Q8_ACT && params->reshape.ne[0] != x->ne[0]) REFUSE("q8_act rows keep their length");
    *out = rp_view_packed(x->dtype, params->reshape.ne, NULL);
    return RP_OK;
}

SHAPE_RULE(permute) {
    const TensorView *x    = src[0];
    unsigned          seen = 0;
    *out                   = (TensorView){.dtype = x->dtype};
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int to = params->permute.axis[i];
        if (to < 0 || to >= RP_MAX_DIMS || (seen & 1u << to) != 0)
            REFUSE("the axes must be a permutation of 0..3");
        seen |= 1u << to;
        out->ne[to] = x->ne[i];
        out->nb[to] = x->nb[i];
    }
    if (params->permute.axis[0] != 0 && rp_dtype_is_quant(x->dtype))
        REFUSE("rows of blocks cannot be permuted");
    return RP_OK;
}

SHAPE_RULE(transpose) {
    (void)params;
    const OpParams swap = {.permute = {.axis = {1, 0, 2, 3}}};
    return rp_shape_permute(src, &swap, out, why);
}
