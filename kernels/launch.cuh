/* launch.cuh - the one way to launch: captured or not, by cudaLaunchKernelExC. Kernels launched so wait for those before them
 * themselves (portable.cuh). */
#ifndef KERNELS_LAUNCH_CUH
#define KERNELS_LAUNCH_CUH

#include "kernels/portable.cuh"
#include "reprise/check.h"

struct LaunchShape {
    dim3     grid, block;
    unsigned shared_bytes;
    bool     any_type = false; /* as in KernelLaunch */
};

static inline unsigned rp_blocks(int64_t items, int64_t each) {
    return (unsigned)((items + each - 1) / each);
}

/* The arguments are copied with the kernel's own parameter types, so that their sizes match. */
template <class... P, class... A>
static inline RpStatus rp_launch(const char *op, KernelCtx *ctx, const LaunchShape &shape, const char *name,
                                 const void *function, void (*)(P...), A... a) {
    static_assert(sizeof...(P) == sizeof...(A), "number of kernel arguments");
    cudaLaunchConfig_t c                               = {};
    c.gridDim                                          = shape.grid;
    c.blockDim                                         = shape.block;
    c.dynamicSmemBytes                                 = shape.shared_bytes;
    c.stream                                           = ctx->stream;
    cudaLaunchAttribute overlap                        = {};
    overlap.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    if (ctx->overlap) c.attrs = &overlap, c.numAttrs = 1;
    RpStatus   hooked = RP_OK;
    const auto launch = [&](P... p) {
        void *pointers[] = {(void *)&p..., nullptr};
        if (ctx->launch == nullptr) return cudaLaunchKernelExC(&c, function, pointers);
        const KernelLaunch l = {
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
