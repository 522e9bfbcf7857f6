/* Functions of nn.h that compute each element by itself. An array is one row.
 *
 *     silu    x / (1 + exp(-x)), as torch.nn.functional.silu
 *     gelu    as torch.nn.functional.gelu: `exact` 1 is approximate='none', 0 is approximate='tanh'
 *     scale, add, mul
 *
 * The result may be the memory of x or a: an element is read before it is written. It may not overlap in another
 * way. */
#include "nn/call.h"

/* y[i] = op(x[i]). `function` is the name for errors. */
static RpStatus map(const NnCall *call, const char *function, TensorOp op, const RpOpParams *params, const float *x,
                    float *y, int64_t n) {
    bool empty;
    RP_TRY(rp_nn_sizes(function, 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL(function, x);
    RP_NN_NOT_NULL(function, y);
    const RpOpArgs args = {
        .dst = rp_nn_view(RP_F32, y, n, 1, 1), .unary.x = rp_nn_view(RP_F32, x, n, 1, 1), .params = params};
    return rp_nn_run(call, op, &args);
}

/* y[i] = op(a[i], b[i]). */
static RpStatus map2(const NnCall *call, const char *function, TensorOp op, const float *a, const float *b, float *y,
                     int64_t n) {
    bool empty;
    RP_TRY(rp_nn_sizes(function, 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL(function, a);
    RP_NN_NOT_NULL(function, b);
    RP_NN_NOT_NULL(function, y);
    const RpOpParams none = {0};
    const RpOpArgs   args = {
          .dst    = rp_nn_view(RP_F32, y, n, 1, 1),
          .src    = {rp_nn_view(RP_F32, a, n, 1, 1), rp_nn_view(RP_F32, b, n, 1, 1)},
          .params = &none
    };
    return rp_nn_run(call, op, &args);
}

RpStatus rp_nn_call_silu(const NnCall *call, const float *x, float *y, int64_t n) {
    return map(call, "silu", RP_OP_SILU, &(RpOpParams){0}, x, y, n);
}

RpStatus rp_nn_call_gelu(const NnCall *call, const float *x, float *y, int64_t n, int32_t exact) {
    const RpOpParams p = {.gelu = {exact != 0 ? RP_GELU_ERF : RP_GELU_TANH}};
    return map(call, "gelu", RP_OP_GELU, &p, x, y, n);
}

RpStatus rp_nn_call_scale(const NnCall *call, const float *x, float *y, int64_t n, float factor) {
    const RpOpParams p = {.scale = {.scale = factor}};
    return map(call, "scale", RP_OP_SCALE, &p, x, y, n);
}

RpStatus rp_nn_call_add(const NnCall *call, const float *a, const float *b, float *y, int64_t n) {
    return map2(call, "add", RP_OP_ADD, a, b, y, n);
}

RpStatus rp_nn_call_mul(const NnCall *call, const float *a, const float *b, float *y, int64_t n) {
    return map2(call, "mul", RP_OP_MUL, a, b, y, n);
}
