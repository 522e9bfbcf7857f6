/* Shape rules that several ops have, and their helpers (shape.h). */
#include "ops/shape.h"

bool rp_shape_same(const RpTensorView *a, const RpTensorView *b) {
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (a->ne[i] != b->ne[i]) return false;
    return true;
}

bool rp_shape_contiguous_rows(const RpTensorView *v) {
    return v->nb[0] == (size_t)rp_dtype_info(v->dtype)->block_bytes;
}

bool rp_shape_is_index(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_I32 && v->ne[0] == n && rp_view_rows(v) == 1 && rp_shape_contiguous_rows(v);
}

bool rp_shape_is_vector(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_F32 && v->ne[0] == n && rp_view_rows(v) == 1 && rp_shape_contiguous_rows(v);
}

bool rp_shape_is_choice(const RpTensorView *v, int64_t k, int64_t n_tok) {
    return v->dtype == RP_I32 && v->ne[0] == k && v->ne[1] == n_tok && v->ne[2] == 1 && v->ne[3] == 1 &&
           rp_view_is_contiguous(v);
}

bool rp_shape_is_rows(const RpTensorView *v) { return v->dtype == RP_F32 && rp_shape_contiguous_rows(v); }

bool rp_shape_is_contiguous(const RpTensorView *v) { return v->dtype == RP_F32 && rp_view_is_contiguous(v); }

bool rp_shape_is_matrix(const RpTensorView *v) { return rp_shape_is_rows(v) && v->ne[2] == 1 && v->ne[3] == 1; }

SHAPE_RULE(rp_shape_unary) {
    (void)params;
    if (in->unary.x->dtype != RP_F32) REFUSE(RP_E_DTYPE, "the source must be f32");
    if (!rp_shape_contiguous_rows(in->unary.x)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    *out = rp_view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

SHAPE_RULE(rp_shape_binary) {
    const RpTensorView *a = in->binary.a, *b = in->binary.b;
    if (b->dtype != RP_F32) REFUSE(RP_E_DTYPE, "both sources must be f32");
    if (!rp_shape_contiguous_rows(b)) REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (a->ne[i] % b->ne[i] != 0)
            REFUSE(RP_E_SHAPE, "dimensions of the second source must divide those of the first");
    return rp_shape_unary(in, params, out, why);
}

SHAPE_RULE(rp_shape_gradient) {
    if (!rp_shape_is_rows(in->binary.b) || !rp_shape_same(in->binary.a, in->binary.b))
        REFUSE(RP_E_SHAPE, "both sources must be f32 of one shape with contiguous rows");
    return rp_shape_unary(in, params, out, why);
}
