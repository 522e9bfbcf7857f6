/* The prologue of the fused products, and rows of a product: calls of the kernels of single ops (fused.h). */
#include "fallback/fused/fused.h"

RpStatus rp_column(const RpTensorView *x, const RpTensorView *norm, const RpColumnParams *c, char *local,
                   RpTensorView *out) {
    *out = *x;
    if (c->norm != 0) {
        *out = rp_floats((float *)(void *)local, x->ne[0], 1);
        RP_TRY(rp_norm_row(x->data, x->ne[0], norm, c->eps, out->data));
    }
    if (c->round == 0) return RP_OK;
    const RpOpArgs args = {.dst = rp_view_contiguous(RP_Q8_ACT, (int64_t[RP_MAX_DIMS]){x->ne[0], 1, 1, 1},
                                                     local + rp_align_floats(x->ne[0])),
                           .src = {*out}};
    *out                = args.dst;
    return rp_run_alone(rp_cpu_quantize, &args);
}

RpStatus rp_mul_mat_rows(const RpTensorView *w, int64_t first, int64_t n, const RpTensorView *x, float *y) {
    const RpOpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
    RpOpArgs         args = {
                .dst    = rp_floats(y, n, 1),
                .src    = {*w, *x},
                .params = &p,
    };
    args.mul_mat.w.data  = (char *)w->data + (size_t)first * w->nb[1];
    args.mul_mat.w.ne[1] = n;
    args.mul_mat.w.ne[2] = args.mul_mat.w.ne[3] = 1;
    args.mul_mat.x.ne[1] = args.mul_mat.x.ne[2] = args.mul_mat.x.ne[3] = 1;
    return n > 0 ? rp_run_alone(rp_cpu_mul_mat, &args) : RP_OK;
}

RpStatus rp_norm_row(float *x, int64_t n, const RpTensorView *weight, float eps, float *y) {
    const RpOpParams p    = {.rms_norm = {.eps = eps}};
    const RpOpArgs   args = {
          .dst = rp_floats(y, n, 1), .src = {rp_floats(x, n, 1), *weight},
                 .params = &p
    };
    return rp_run_alone(rp_cpu_rms_norm, &args);
}
