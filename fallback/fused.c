/* The prologue of the fused products, and rows of a product: calls of the kernels of single ops (fused.h). */
#include "fallback/fused.h"

RpStatus rp_column(const TensorView *x, const TensorView *norm, const ColumnParams *c, char *local,
                   TensorView *out) {
    *out = *x;
    if (c->norm != 0) {
        const OpParams p    = {.rms_norm = {.eps = c->eps}};
        const OpArgs   args = {
              .dst = rp_floats((float *)(void *)local, x->ne[0], 1), .src = {*x, *norm},
                       .params = &p
        };
        *out = args.dst;
        RP_TRY(rp_run_alone(rp_cpu_rms_norm, &args));
    }
    if (c->round == 0) return RP_OK;
    const OpArgs args = {.dst = rp_view_contiguous(RP_Q8_ACT, (int64_t[RP_MAX_DIMS]){x->ne[0], 1, 1, 1},
                                               local + rp_align_floats(x->ne[0])),
                         .src = {*out}};
    *out              = args.dst;
    return rp_run_alone(rp_cpu_quantize, &args);
}

RpStatus rp_mul_mat_rows(const TensorView *w, int64_t first, int64_t n, const TensorView *x, float *y) {
    const OpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
    OpArgs         args = {
                .dst = rp_floats(y, n, 1), .src = {*w, *x},
                       .params = &p
    };
    args.src[0].data  = (char *)w->data + (size_t)first * w->nb[1];
    args.src[0].ne[1] = n;
    args.src[0].ne[2] = args.src[0].ne[3] = 1;
    args.src[1].ne[1] = args.src[1].ne[2] = args.src[1].ne[3] = 1;
    return n > 0 ? rp_run_alone(rp_cpu_mul_mat, &args) : RP_OK;
}
