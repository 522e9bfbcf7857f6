/* Functions of nn.h that compute gradients of element-wise functions and of rows. dy is the gradient of the loss
 * with respect to the result of the forward function, dx that with respect to its argument; nn.h and ops/private.h
 * have the formulas.
 *
 *     silu_backward, gelu_backward   read x, the argument of the forward function
 *     softmax_backward               reads y, its result: dx = y (dy - sum dy y)
 *     rmsnorm_backward               reads x, and computes the factors rstd of the rows again
 *
 * They compute what autograd of PyTorch computes for silu, gelu, softmax and rms_norm of torch.nn.functional. dx may
 * be dy where the op is in place (RP_FLAG_INPLACE): each kernel reads a row, or an element, before it writes it.
 * rmsnorm_backward is the exception. dweight reads dy and x once more when dx is complete. */
#include "nn/call.h"

/* RP_E_ARG for more rows than a grid can have blocks: on a GPU one block computes a row. *empty: no element. */
static RpStatus rows_of(const char *function, int64_t batch, int64_t dim, bool *empty) {
    RP_TRY(rp_nn_sizes(function, batch, dim, empty));
    if (batch <= INT32_MAX) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %lld rows: must be at most %d", function, (long long)batch, INT32_MAX);
}

/* Runs an op with the sources dy and `of`, which is x or y, all [rows,n]. */
static RpStatus gradient(const NnCall *call, TensorOp op, const RpOpParams *params, const float *of, const float *dy,
                         float *dx, int64_t rows, int64_t n) {
    const RpOpArgs args = {
        .dst    = rp_nn_view(RP_F32, dx, n, rows, 1),
        .src    = {rp_nn_view(RP_F32, dy, n, rows, 1), rp_nn_view(RP_F32, of, n, rows, 1)},
        .params = params
    };
    return rp_nn_run(call, op, &args);
}

RpStatus rp_nn_call_silu_backward(const NnCall *call, const float *x, const float *dy, float *dx, int64_t n) {
    bool empty;
    RP_TRY(rp_nn_sizes("silu_backward", 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("silu_backward", x);
    RP_NN_NOT_NULL("silu_backward", dy);
    RP_NN_NOT_NULL("silu_backward", dx);
    return gradient(call, RP_OP_SILU_BACKWARD, &(RpOpParams){0}, x, dy, dx, 1, n);
}

RpStatus rp_nn_call_gelu_backward(const NnCall *call, const float *x, const float *dy, float *dx, int64_t n,
                                  int32_t exact) {
    bool             empty;
    const RpOpParams p = {.gelu_backward = {exact != 0 ? RP_GELU_ERF : RP_GELU_TANH}};
    RP_TRY(rp_nn_sizes("gelu_backward", 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("gelu_backward", x);
    RP_NN_NOT_NULL("gelu_backward", dy);
    RP_NN_NOT_NULL("gelu_backward", dx);
    return gradient(call, RP_OP_GELU_BACKWARD, &p, x, dy, dx, 1, n);
}

RpStatus rp_nn_call_softmax_backward(const NnCall *call, const float *y, const float *dy, float *dx, int64_t batch,
                                     int32_t dim) {
    bool             empty;
    const RpOpParams p = {.soft_max_backward = {.scale = 1.0f}};
    RP_TRY(rows_of("softmax_backward", batch, dim, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("softmax_backward", y);
    RP_NN_NOT_NULL("softmax_backward", dy);
    RP_NN_NOT_NULL("softmax_backward", dx);
    return gradient(call, RP_OP_SOFT_MAX_BACKWARD, &p, y, dy, dx, batch, dim);
}

RpStatus rp_nn_call_rmsnorm_backward(const NnCall *call, const float *x, const float *weight, const float *dy,
                                     float *dx, float *dweight, float *rstd, int64_t batch, int32_t dim, float eps) {
    bool empty;
    RP_TRY(rows_of("rmsnorm_backward", batch, dim, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("rmsnorm_backward", x);
    RP_NN_NOT_NULL("rmsnorm_backward", dy);
    RP_NN_NOT_NULL("rmsnorm_backward", dx);
    if (dweight != NULL) RP_NN_NOT_NULL("rmsnorm_backward", rstd);
    const RpOpParams p    = {.rms_norm_backward = {.eps = eps}};
    RpOpArgs         args = {
                .dst    = rp_nn_view(RP_F32, dx, dim, batch, 1),
                .src    = {rp_nn_view(RP_F32, dy, dim, batch, 1), rp_nn_view(RP_F32, x, dim, batch, 1)},
                .params = &p
    };
    if (weight != NULL) args.rms_norm_backward.w = rp_nn_view(RP_F32, weight, dim, 1, 1);
    if (dweight != NULL) args.rms_norm_backward.dw = rp_nn_view(RP_F32, dweight, dim, 1, 1);
    if (rstd != NULL) args.rms_norm_backward.rstd = rp_nn_view(RP_F32, rstd, batch, 1, 1);
    return rp_nn_run(call, RP_OP_RMS_NORM_BACKWARD, &args);
}
