/* launch.cuh - the one way to launch a kernel: RP_LAUNCH, by cudaLaunchKernelExC, eagerly or into a capture. With
 * ctx->launch set, the hook gets the launch instead; the executor records, repoints and inspects by it. Every
 * kernel launched so executes griddepcontrol.wait itself (portable.cuh), so the hook is told `waits`. */
#ifndef KERNELS_DEVICE_LAUNCH_CUH
#define KERNELS_DEVICE_LAUNCH_CUH

#include "kernels/device/portable.cuh"
#include "base/check.h"

struct LaunchShape {
    dim3     grid, block;
    unsigned shared_bytes;     /* dynamic shared memory */
    bool     any_type = false; /* as in RpKernelLaunch */
};

/* Blocks that cover `items` with `each` items per block. */
static inline unsigned rp_blocks(int64_t items, int64_t each) {
    return (unsigned)((items + each - 1) / each);
}

/* cudaLaunchKernelExC takes arguments by untyped pointers. The unused parameter void (*)(P...) is the kernel: it
 * tells the compiler the parameter types P. `launch` converts each argument to its type, so that the bytes behind
 * each pointer are those that the kernel reads. */
template <class... P, class... A>
static inline RpStatus rp_launch(const char *op, RpKernelCtx *ctx, const LaunchShape &shape, const char *name,
                                 const void *function, void (*)(P...), A... a) {
    static_assert(sizeof...(P) == sizeof...(A), "number of kernel arguments");
    cudaLaunchConfig_t c                           = {};
    c.gridDim                                      = shape.grid;
    c.blockDim                                     = shape.block;
    c.dynamicSmemBytes                             = shape.shared_bytes;
    c.stream                                       = ctx->stream;
    cudaLaunchAttribute pdl                        = {};
    pdl.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
    if (ctx->overlap) c.attrs = &pdl, c.numAttrs = 1;
    RpStatus   hooked = RP_OK;
    const auto launch = [&](P... p) {
        void *pointers[] = {(void *)&p..., nullptr};
        if (ctx->launch == nullptr) return cudaLaunchKernelExC(&c, function, pointers);
        const RpKernelLaunch l = {
            name,
            function,
            {c.gridDim.x,   c.gridDim.y, c.gridDim.z},
            {c.blockDim.x,  c.blockDim.y, c.blockDim.z},
            shape.shared_bytes,
            pointers,
            shape.any_type,
            nullptr,
            nullptr,
            {},
            true
        };
        hooked = ctx->launch(ctx->user, &l);
        return cudaSuccess;
    };
    const cudaError_t e = launch(a...);
    if (e == cudaSuccess) return hooked;
    return rp_fail(RP_E_CUDA, "%s: launch of %ux%ux%u blocks of %u threads: %s", op, c.gridDim.x, c.gridDim.y,
                   c.gridDim.z, c.blockDim.x, cudaGetErrorString(e));
}

#define RP_LAUNCH(op, ctx, shape, kernel, ...)                                                               \
    rp_launch(op, ctx, shape, #kernel, RP_KERNEL(kernel), kernel, __VA_ARGS__)

#endif
