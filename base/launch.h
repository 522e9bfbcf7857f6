/* launch.h - one kernel launch by the CUDA runtime, with or without programmatic dependent launch (PDL). Launchers
 * (kernels/device/launch.cuh) and the executor, which launches what its hook was given, share it. */
#ifndef BASE_LAUNCH_H
#define BASE_LAUNCH_H

#include "base/tuning.h"

#include <cuda_runtime_api.h>

/* A kernel as its source names it, and the sizes of its arguments: all that a program for NVRTC needs to call it. */
struct RpKernelInstance {
    const char   *signature; /* ends with "= NAME]", NAME as "{anonymous}::gate_up_kernel<QuantForm<RP_Q4_K> >" */
    int           n_arguments;
    const size_t *argument_bytes;
};

/* Without permission a kernel may have 48 KB of shared memory, static and dynamic together. rp_cuda_allow_shared asks
 * for permission where the dynamic part alone is larger than this, which leaves 16 KB for the static part. */
enum { RP_FREE_SHARED = 32 * 1024 };

/* Allows the function to have `bytes` of dynamic shared memory. The permission belongs to the function, and captured
 * nodes depend on it too. So it is never lowered, and is raised at once to the maximum of the device: if two threads
 * raise it, neither can undo what the other needs. A launch that wants more is refused. */
#ifdef __CUDACC_RTC__
cudaError_t rp_cuda_allow_shared(const void *function, unsigned bytes); /* launchers do not become code there */
#else
static inline cudaError_t rp_cuda_allow_shared(const void *function, unsigned bytes) {
    struct cudaFuncAttributes a;
    int                       device, most;
    if (bytes <= RP_FREE_SHARED) return cudaSuccess;
    cudaError_t e = cudaFuncGetAttributes(&a, function);
    if (e != cudaSuccess) return e;
    if (bytes <= (unsigned)a.maxDynamicSharedSizeBytes) return cudaSuccess;
    e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess) return e;
    return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most - (int)a.sharedSizeBytes);
}
#endif

/* The text in front of the name of an op whose launch failed. A kernel that fails while it runs makes later calls fail,
 * so only errors of the launch itself certainly belong to this op. */
static inline const char *rp_cuda_whence(cudaError_t e) {
    const bool own = e == cudaErrorInvalidConfiguration || e == cudaErrorInvalidValue ||
                     e == cudaErrorLaunchOutOfResources || e == cudaErrorInvalidDeviceFunction ||
                     e == cudaErrorNoKernelImageForDevice;
    return own ? "" : "before or in ";
}

/* Enqueues `l` on the stream; l->function is not NULL. With `overlap` a kernel that waits for earlier ones itself
 * (l->waits) and is no larger than `tuning` allows gets the PDL attribute: it may begin while the kernel before it
 * still runs. */
static inline cudaError_t rp_cuda_launch(const RpKernelLaunch *l, struct CUstream_st *stream, bool overlap,
                                         RpCudaTuning tuning) {
    cudaLaunchAttribute pdl;
    cudaLaunchConfig_t  c;
    pdl.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
    c.gridDim.x = l->grid[0], c.gridDim.y = l->grid[1], c.gridDim.z = l->grid[2];
    c.blockDim.x = l->block[0], c.blockDim.y = l->block[1], c.blockDim.z = l->block[2];
    c.dynamicSmemBytes  = l->shared_bytes;
    c.stream            = stream;
    c.attrs             = &pdl;
    c.numAttrs          = overlap && l->waits && rp_tuning_overlaps(&tuning, l->grid) ? 1 : 0;
    const cudaError_t e = rp_cuda_allow_shared(l->function, l->shared_bytes);
    return e == cudaSuccess ? cudaLaunchKernelExC(&c, l->function, l->arguments) : e;
}

#endif
