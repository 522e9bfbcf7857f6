/* Calls of the CUDA runtime, their errors, and the options that name a library. */
#include "executor/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

RpStatus rp_cuda_check(CudaDevice *d, cudaError_t e, const char *what) {
    if (e == cudaSuccess) return RP_OK;
    (void)cudaGetLastError();
    /* After a fatal error every call returns that error: the query tells it from a failure of this call alone. A
     * capturing stream answers with an error of its own, which is not fatal. */
    const cudaError_t now = d->stream != NULL ? cudaStreamQuery(d->stream) : cudaSuccess;
    (void)cudaGetLastError();
    if (now != cudaSuccess && now != cudaErrorNotReady && now != cudaErrorStreamCaptureUnsupported &&
        now != cudaErrorStreamCaptureInvalidated) {
        d->failed = true;
        snprintf(d->failure, sizeof d->failure, "%s: %s", what, cudaGetErrorString(now));
    }
    return rp_fail(e == cudaErrorMemoryAllocation ? RP_E_NOMEM : RP_E_CUDA, "%s: %s: %s", d->id, what,
                   cudaGetErrorString(e));
}

RpStatus rp_cuda_named(const CudaDevice *d, RpStatus st) {
    char text[512];
    if (st != RP_E_CUDA) return st;
    snprintf(text, sizeof text, "%s", rp_last_error());
    return rp_fail(st, "%s: %s", d->id, text);
}

RpStatus rp_cuda_select(CudaDevice *d) {
    if (d->hung) return rp_fail(RP_E_CUDA, "%s", d->failure);
    if (d->failed)
        return rp_fail(RP_E_CUDA, "%s has failed before (%s): open it anew, in a new process if need be", d->id,
                       d->failure);
    return rp_cuda_check(d, cudaSetDevice(d->index), "selection of the device");
}

RpStatus rp_cuda_enter(CudaDevice *d) {
    RP_TRY(rp_cuda_select(d));
    return d->looping ? rp_fail(RP_E_STATE, "%s: a reply is under way", d->id) : RP_OK;
}

RpStatus rp_cuda_alloc(CudaDevice *d, size_t bytes, const char *what, void **out) {
    const cudaError_t e = cudaMalloc(out, bytes > 0 ? bytes : CUDA_ALIGN);
    if (e != cudaErrorMemoryAllocation) return rp_cuda_check(d, e, what);
    (void)cudaGetLastError();
    return rp_fail(RP_E_NOMEM, "%s: %zu bytes for %s could not be allocated", d->id, bytes, what);
}

RpStatus rp_cuda_wanted_library(RpOption option, const char **path) {
    const char *value = rp_option(option);
    *path             = strcmp(value, "off") == 0 ? NULL : strcmp(value, "auto") == 0 ? "" : value;
    if (*path == NULL || (*path)[0] == '\0' || strchr(value, '/') != NULL) return RP_OK;
    return rp_fail(RP_E_ARG, "%s '%s': must be auto, off or the path of a library", rp_option_name(option), value);
}
