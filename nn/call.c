/* The functions of nn.h: each is one line of RP_NN_FUNCTIONS. Statuses of the library become those of RpNnStatus. */
#include "nn/call.h"

static int32_t code_of(RpStatus st) {
    switch (st) {
    case RP_OK:
        return RP_NN_OK;
    case RP_E_NOT_AVAILABLE:
        return RP_NN_NOT_AVAILABLE;
    case RP_E_NOMEM:
        return RP_NN_OUT_OF_MEMORY;
    case RP_E_CUDA:
    case RP_E_STATE:
        return RP_NN_EXECUTION_FAILED;
    default:
        return RP_NN_INVALID_ARGUMENT;
    }
}

#define F(name, parameters, names)                                                                           \
    int32_t rp_nn_##name(RP_NN_UNPACK parameters, void *stream) {                                            \
        const RpStatus st = rp_nn_cuda_check();                                                              \
        if (st != RP_OK) return code_of(st);                                                                 \
        return code_of(rp_nn_call_##name(&(NnCall){true, stream}, RP_NN_UNPACK names));                      \
    }                                                                                                        \
    int32_t rp_nn_cpu_##name(RP_NN_UNPACK parameters, void *stream) {                                        \
        return code_of(rp_nn_call_##name(&(NnCall){false, stream}, RP_NN_UNPACK names));                     \
    }
RP_NN_FUNCTIONS(F)
#undef F
#define F(name, parameters, names)                                                                           \
    int32_t rp_nn_##name parameters {                                                                        \
        const RpStatus st = rp_nn_cuda_check();                                                              \
        if (st != RP_OK) return code_of(st);                                                                 \
        return code_of(rp_nn_call_##name(&(NnCall){true, NULL}, RP_NN_UNPACK names));                        \
    }                                                                                                        \
    int32_t rp_nn_cpu_##name parameters {                                                                    \
        return code_of(rp_nn_call_##name(&(NnCall){false, NULL}, RP_NN_UNPACK names));                       \
    }
RP_NN_QUERIES(F)
#undef F
#define F(name, parameters, names)                                                                           \
    int32_t rp_nn_##name parameters { return code_of(rp_nn_call_##name names); }
RP_NN_DEVICE_FUNCTIONS(F)
#undef F
#define F(name, parameters, names)                                                                           \
    int32_t rp_nn_cpu_##name parameters { return code_of(rp_nn_call_##name names); }
RP_NN_HOST_FUNCTIONS(F)
#undef F

int32_t rp_nn_abi_version(void) { return RP_NN_ABI_VERSION; }

const char *rp_nn_last_error(void) { return rp_last_error(); }

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
    return rp_view_contiguous(dtype, ne, (void *)(uintptr_t)data);
}

RpStatus rp_nn_sizes(const char *function, int64_t rows, int64_t columns, bool *empty) {
    *empty = rows == 0 || columns == 0;
    if (rows < 0 || columns < 0)
        return rp_fail(RP_E_ARG, "%s: sizes %lld and %lld: none may be negative", function, (long long)rows,
                       (long long)columns);
    if (!*empty && rows > INT64_MAX / (int64_t)sizeof(float) / columns)
        return rp_fail(RP_E_ARG, "%s: %lld * %lld floats are more than memory can hold", function,
                       (long long)rows, (long long)columns);
    return RP_OK;
}
