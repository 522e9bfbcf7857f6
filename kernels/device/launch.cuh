/* launch.cuh - the one way to launch a kernel: RP_LAUNCH, by cudaLaunchKernelExC, eagerly or into a capture. With
 * ctx->launch set, the hook gets the launch instead; the executor records, repoints and inspects by it. Every kernel
 * that is launched in this way executes griddepcontrol.wait itself (portable.cuh), so the hook is told `waits`. */
#ifndef KERNELS_DEVICE_LAUNCH_CUH
#define KERNELS_DEVICE_LAUNCH_CUH

#include "base/launch.h"
#include "kernels/device/portable.cuh"
#include "ops/rules.h"

#include <stddef.h>
#include <string.h>

struct LaunchShape {
    dim3     grid, block;
    unsigned shared_bytes;     /* dynamic shared memory */
    bool     any_type = false; /* as in RpKernelLaunch */
};

/* Blocks that cover `items` with `each` items per block. */
static inline unsigned rp_blocks(int64_t items, int64_t each) { return (unsigned)((items + each - 1) / each); }

/* The name of a kernel, with template arguments, in the words of the compiler. clang leaves the arguments out. */
#ifdef __clang__
template <auto KERNEL> static inline const char *rp_kernel_signature() { return ""; }
#else
template <auto KERNEL> static inline const char *rp_kernel_signature() { return __PRETTY_FUNCTION__; }
#endif

/* Clears the padding of a view, which would hold stack contents. Specialised kernels are found by comparing all bytes
 * of the arguments (executor/cuda/special.c). */
static inline void rp_clear_padding(RpTensorView &view) {
    const size_t end = offsetof(RpTensorView, dtype) + sizeof view.dtype;
    memset((char *)&view + end, 0, offsetof(RpTensorView, ne) - end);
}

/* Other arguments are numbers and pointers; structs with padding have overloads of their own. */
template <class T> static inline void rp_clear_padding(T &) {}

/* cudaLaunchKernelExC takes arguments by untyped pointers. The unused parameter void (*)(P...) is the kernel: it
 * tells the compiler the parameter types P. `launch` converts each argument to its type, so that the bytes behind
 * each pointer are those that the kernel reads. */
template <class... P, class... A>
static inline RpStatus rp_launch(const char *op, RpKernelCtx *ctx, const LaunchShape &shape, const char *name,
                                 const char *signature, const void *function, void (*)(P...), A... a) {
    static_assert(sizeof...(P) == sizeof...(A), "number of kernel arguments");
    const auto launch = [&](P... p) -> RpStatus {
        (rp_clear_padding(p), ...);
        static constexpr size_t bytes[]    = {sizeof(P)..., 0};
        const RpKernelInstance  instance   = {signature, (int)sizeof...(P), bytes};
        void                   *pointers[] = {(void *)&p..., nullptr};
        RpKernelLaunch          l          = {};
        l.name = name, l.function = function;
        l.grid[0] = shape.grid.x, l.grid[1] = shape.grid.y, l.grid[2] = shape.grid.z;
        l.block[0] = shape.block.x, l.block[1] = shape.block.y, l.block[2] = shape.block.z;
        l.shared_bytes = shape.shared_bytes;
        l.arguments    = pointers;
        l.any_type     = shape.any_type;
        l.waits        = true;
        l.instance     = &instance;
        if (ctx->launch != nullptr) return ctx->launch(ctx->user, &l);
        const cudaError_t e = rp_cuda_launch(&l, ctx->stream, ctx->overlap, rp_tuning_of(ctx));
        if (e == cudaSuccess) return RP_OK;
        return rp_fail(RP_E_CUDA, "%s%s: launch of %ux%ux%u blocks of %u threads: %s", rp_cuda_whence(e), op,
                       shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, cudaGetErrorString(e));
    };
    return launch(a...);
}

/* RP_LAUNCH_AS gives the kernel another name in dumps. */
#define RP_LAUNCH_AS(op, ctx, shape, name, kernel, ...)                                                                \
    rp_launch(op, ctx, shape, name, rp_kernel_signature<kernel>(), RP_KERNEL(kernel), kernel, __VA_ARGS__)
#define RP_LAUNCH(op, ctx, shape, kernel, ...) RP_LAUNCH_AS(op, ctx, shape, #kernel, kernel, __VA_ARGS__)

#endif
