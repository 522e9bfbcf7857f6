/* call.h - one call of a function of nn.h. A function builds the arguments of an op of ops.h and runs the op's kernel,
 * on the stream of a CUDA device or on the host. Its body serves both:
 *
 *     rp_nn_silu(x, y, n, stream)       rp_nn_call_silu(&(NnCall){true, stream}, x, y, n)
 *     rp_nn_cpu_silu(x, y, n, stream)   rp_nn_call_silu(&(NnCall){false, stream}, x, y, n)
 */
#ifndef NN_CALL_H
#define NN_CALL_H

#include "base/kernels.h"
#include "reprise/nn.h"

typedef struct NnCall {
    bool  cuda;   /* false: on the host, and all pointers of the call are host memory */
    void *stream; /* a cudaStream_t; NULL: the default stream */
} NnCall;

#define F(name, parameters, names) RP_NODISCARD RpStatus rp_nn_call_##name(const NnCall *call, RP_NN_UNPACK parameters);
RP_NN_FUNCTIONS(F)
RP_NN_QUERIES(F)
#undef F
#define F(name, parameters, names) RP_NODISCARD RpStatus rp_nn_call_##name parameters;
RP_NN_DEVICE_FUNCTIONS(F)
RP_NN_HOST_FUNCTIONS(F)
#undef F

/* The memory that a kernel computes in: a part of the caller's workspace. */
typedef struct NnMemory {
    char  *data;
    size_t bytes;
} NnMemory;

/* Runs the kernel of `op`. RP_E_NOT_AVAILABLE without CUDA; errors of the kernel. */
RP_NODISCARD RpStatus rp_nn_run(const NnCall *call, TensorOp op, const RpOpArgs *args);

/* For ops that need memory: rp_nn_memory bytes or more. RP_E_ARG for less, NULL, or data that is not aligned to
 * RP_NN_ALIGN bytes. */
RP_NODISCARD RpStatus rp_nn_run_in(const NnCall *call, TensorOp op, const RpOpArgs *args, NnMemory memory);

/* Bytes that the op needs, from shapes only. */
RP_NODISCARD RpStatus rp_nn_memory(const NnCall *call, TensorOp op, const RpOpArgs *args, size_t *bytes);

enum { RP_NN_ALIGN = 64 };
static inline size_t rp_nn_align(size_t bytes) { return (bytes + RP_NN_ALIGN - 1) / RP_NN_ALIGN * RP_NN_ALIGN; }

/* Takes the next `bytes` of a workspace. */
static inline void *rp_nn_take(NnMemory *from, size_t bytes) {
    void *taken = from->data;
    from->data += rp_nn_align(bytes), from->bytes -= rp_nn_align(bytes);
    return taken;
}

/* The two backends. */
RP_NODISCARD RpStatus rp_nn_run_cpu(TensorOp op, const RpOpArgs *args, NnMemory memory);
RP_NODISCARD RpStatus rp_nn_run_cuda(void *stream, TensorOp op, const RpOpArgs *args, NnMemory memory);
RP_NODISCARD RpStatus rp_nn_memory_cpu(TensorOp op, const RpOpArgs *args, size_t *bytes);
RP_NODISCARD RpStatus rp_nn_memory_cuda(TensorOp op, const RpOpArgs *args, size_t *bytes);

/* RP_E_NOT_AVAILABLE, with the reason, unless the functions for CUDA can run here. */
RP_NODISCARD RpStatus rp_nn_cuda_check(void);

/* A contiguous tensor [n0,n1,n2], which borrows `data`. Inputs are const in nn.h; kernels do not write to them. */
RpTensorView rp_nn_view(RpDtype dtype, const void *data, int64_t n0, int64_t n1, int64_t n2);

/* RP_E_ARG if a size is negative, or the bytes of rows * columns floats overflow. *empty: nothing is to be
 * computed. */
RP_NODISCARD RpStatus rp_nn_sizes(const char *function, int64_t rows, int64_t columns, bool *empty);

/* RP_E_ARG: pointer `name` of a function is NULL. */
#define RP_NN_NOT_NULL(function, pointer)                                                                              \
    do {                                                                                                               \
        if ((pointer) == NULL) return rp_fail(RP_E_ARG, "%s: %s is NULL", function, #pointer);                         \
    } while (0)

#endif
