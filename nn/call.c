/* Shared by the functions of nn.h: the run of an op on either backend, views and sizes.
 *
 *     function of nn.h -> rp_nn_call_NAME -> rp_nn_run(op, views of the arrays) -> kernel of the op
 *
 * No graph, plan or executor is involved: the arrays of the caller become RpTensorView, without a copy. */
#include "nn/call.h"

RpStatus rp_nn_run_in(const NnCall *call, TensorOp op, const RpOpArgs *args, NnMemory memory) {
    return call->cuda ? rp_nn_run_cuda(call->stream, op, args, memory) : rp_nn_run_cpu(op, args, memory);
}

RpStatus rp_nn_run(const NnCall *call, TensorOp op, const RpOpArgs *args) {
    return rp_nn_run_in(call, op, args, (NnMemory){0});
}

RpStatus rp_nn_memory(const NnCall *call, TensorOp op, const RpOpArgs *args, size_t *bytes) {
    return call->cuda ? rp_nn_memory_cuda(op, args, bytes) : rp_nn_memory_cpu(op, args, bytes);
}

RpTensorView rp_nn_view(RpDtype dtype, const void *data, int64_t n0, int64_t n1, int64_t n2) {
    const int64_t ne[RP_MAX_DIMS] = {n0, n1, n2, 1};
    return rp_view_contiguous(dtype, ne, (void *)(uintptr_t)data); /* through an integer: -Wcast-qual keeps const */
}

RpStatus rp_nn_sizes(const char *function, int64_t rows, int64_t columns, bool *empty) {
    *empty = rows == 0 || columns == 0;
    if (rows < 0 || columns < 0)
        return rp_fail(RP_E_ARG, "%s: sizes %lld and %lld: none may be negative", function, (long long)rows,
                       (long long)columns);
    /* By division, as the product itself may overflow. */
    if (!*empty && rows > INT64_MAX / (int64_t)sizeof(float) / columns)
        return rp_fail(RP_E_ARG, "%s: %lld * %lld floats are more than memory can hold", function, (long long)rows,
                       (long long)columns);
    return RP_OK;
}
