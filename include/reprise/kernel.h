/* kernel.h - the ABI between a plan and one kernel, the same for every backend (I7). A CPU kernel computes its part of
 * the result at once; a CUDA launcher only enqueues its kernel on a stream.
 *
 *   RpStatus relu(const RpOpArgs *args, RpKernelCtx *ctx) {              // CPU: every worker makes this call
 *       for (int64_t r = ctx->ith; r < rp_view_rows(&args->dst); r += ctx->nth) {
 *           const float *x = (const float *)rp_view_row(&args->unary.x, r);
 *           float       *y = (float *)rp_view_row(&args->dst, r);
 *           for (int64_t i = 0; i < args->dst.ne[0]; i++) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
 *       }
 *       return RP_OK;
 *   }
 *
 * A kernel allocates nothing, never blocks and divides its work by shapes only (I5). Values that change from token
 * to token arrive in a source tensor (I4). Every worker calls a CPU kernel with the same arguments; worker `ith` of
 * `nth` computes its part, and the bits of the result do not depend on `nth` (I8).
 */
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include "reprise/ops.h"
#include "reprise/options.h"
#include "reprise/status.h"
#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* what cudaStream_t points to */

/* Removes the parentheses around a list of sources. */
#define RP_UNPACK(...) __VA_ARGS__

/* All views borrow their memory: device memory for a CUDA launcher, host memory for a CPU kernel. An absent optional
 * source has data NULL and ne 0. The same sources have numbers (src) and, for each op of ops.h, names:
 * args->linear.bias. `unary` and `binary` serve code for all ops with that many required sources. */
typedef struct RpOpArgs {
    RpTensorView dst;
    union {
        RpTensorView src[RP_MAX_SRC];
        struct {
            RpTensorView x;
        } unary;
        struct {
            RpTensorView a, b;
        } binary;
#define OP(number, ID, name, required, sources, Params, fields, flags)                                                 \
    struct {                                                                                                           \
        RpTensorView RP_UNPACK sources;                                                                                \
    } name;
        RP_OPS(OP, OP)
#undef OP
    };
    const RpOpParams *params; /* owned by the graph */
} RpOpArgs;

/* Number of a source, such as RP_SOURCE(linear, bias) = 3. A constant expression. */
#define RP_SOURCE(op, source) ((int)((offsetof(RpOpArgs, op.source) - offsetof(RpOpArgs, src)) / sizeof(RpTensorView)))

/* Whether an optional source was given. */
static inline bool rp_is_present(const RpTensorView *source) { return source->ne[0] > 0; }

enum { RP_LAUNCH_ADDRESSES = 3 }; /* operands of a library call: w, x, y */

typedef struct RpKernelInstance RpKernelInstance; /* opaque */

/* One launch that a CUDA launcher makes: of a kernel, or a call of another library, which launches its own kernels. */
typedef struct RpKernelLaunch {
    const char *name;     /* of the kernel in its source; static storage */
    const void *function; /* address of the kernel, for cudaLaunchKernel; NULL with `enqueue` */
    unsigned    grid[3], block[3], shared_bytes;
    void      **arguments; /* valid during the call */
    bool        any_type;  /* reads no weights, so that one function may serve steps with weights of several types */
    /* Or NULL. Another library: this call puts its work on the stream. Captured nodes keep these addresses. */
    RpStatus (*enqueue)(void *arg, struct CUstream_st *stream);
    void       *arg; /* valid during the call */
    const void *addresses[RP_LAUNCH_ADDRESSES];
    /* Programmatic dependent launch is safe: the kernel executes griddepcontrol.wait before it touches memory that
     * earlier kernels write, so it may start while they still run. */
    bool                    waits;
    const RpKernelInstance *instance; /* of the library's own kernels; or NULL. Valid during the call */
} RpKernelLaunch;

typedef struct RpBlasLt      RpBlasLt;      /* opaque */
typedef struct RpCudaTuning  RpCudaTuning;  /* opaque */
typedef struct RpCudaSources RpCudaSources; /* opaque */
typedef struct RpNextWeights RpNextWeights; /* opaque */

/* The context of one call, valid during it. CUDA launchers use `stream` to `constant`, `launch` and `user`; CPU kernels
 * use `ith` to `local`. The library allocates it, so later versions may add members at the end. */
typedef struct RpKernelCtx {
    struct CUstream_st *stream;
    void               *scratch; /* device memory of the stream, for the library's own kernels */
    size_t              scratch_bytes;
    RpBlasLt           *blas;     /* or NULL: cuBLASLt, for the products that it was prepared for */
    bool                overlap;  /* use programmatic dependent launch for kernels that wait; without `launch` only */
    unsigned            constant; /* bit s: source s is a weight, which no kernel writes */
    int                 ith, nth; /* index of this worker, and the number of workers */
    int                 phase;    /* 0 for ops of one phase; all workers have finished the phase before */
    void               *shared, *local; /* memory of all workers together, and of this worker alone */
    /* Or NULL. CUDA launchers call it instead of launching: to record the launch, to repoint a captured node to new
     * addresses, or only to look at it. */
    RpStatus (*launch)(void *user, const RpKernelLaunch *launch);
    void                *user;
    const RpCudaTuning  *tuning;  /* of the device, for the library's own launchers; NULL stands for its defaults */
    const RpCudaSources *sources; /* kernels that were compiled from source text (source.h); NULL without a device */
    TensorOp             op;      /* of the step, for CUDA launchers */
    const RpNextWeights *next;    /* what the steps behind this one read, for the library's own launchers; or NULL */
} RpKernelCtx;

/* Validates types, shapes and parameters, then does its work. Errors name the op and both shapes. */
typedef RpStatus RpOpKernel(const RpOpArgs *args, RpKernelCtx *ctx);

/* The CPU kernel of an op of ops.h, for programs that measure or test one op; a function of the library. NULL for
 * views, which compute nothing, and for other numbers. Some fused ops, attention, mul_mat and mul_mat_id use
 * RpKernelCtx.shared and local with more than one worker or column: run those through an executor. */
RP_API RpOpKernel *rp_cpu_kernel(TensorOp op);

#ifdef __cplusplus
}
#endif
#endif
