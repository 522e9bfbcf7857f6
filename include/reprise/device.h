/* device.h - which devices can run a plan on this machine, and how much memory they have. No call here keeps anything
 * open.
 *
 *   int n;
 *   if (rp_cuda_probe(&n) != RP_OK) printf("CPU only: %s\n", rp_last_error());
 */
#ifndef REPRISE_DEVICE_H
#define REPRISE_DEVICE_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of CUDA devices, at least 1. RP_E_NOT_AVAILABLE, with *n_devices 0 and the reason as text, in a build
 * without the CUDA toolkit, without a driver, or without a device. */
RP_API RP_NODISCARD RpStatus rp_cuda_probe(int *n_devices);

typedef struct RpCudaDeviceInfo {
    char   name[256];
    int    major, minor; /* compute capability */
    int    n_sm;         /* streaming multiprocessors */
    size_t total_bytes, free_bytes, l2_bytes;
    int    driver, runtime; /* versions of CUDA: 1000 * major + 10 * minor */
    bool   has_code;        /* this build has kernels for it */
    bool   has_loops;       /* the driver supports RP_MODE_LOOP */
} RpCudaDeviceInfo;

/* RP_E_ARG unless 0 <= index < n_devices; errors as rp_cuda_probe; RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus rp_cuda_device_info_sized(int index, RpCudaDeviceInfo *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_cuda_device_info(int index, RpCudaDeviceInfo *out) {
    return rp_cuda_device_info_sized(index, out, sizeof *out);
}

typedef struct RpDeviceMemory {
    char   id[16];     /* "cpu", "cuda:0" */
    int    index;      /* of a CUDA device */
    bool   is_own;     /* separate from host memory: weights must be copied there */
    size_t free_bytes; /* of a GPU: free memory less 64 MiB for the driver; of the host: memory available without
                          swapping, 0 if the system does not tell */
} RpDeviceMemory;

/* The memory of the device that rp_executor_open would choose. `device`: "auto", "cpu", "cuda" or "cuda:N", borrowed
 * for the call; NULL: REPRISE_DEVICE. RP_E_ARG for another name, RP_E_NOT_AVAILABLE if a named or required device is
 * missing, RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus rp_device_memory_sized(const char *device, bool require_cuda, RpDeviceMemory *out,
                                                    size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_device_memory(const char *device, bool require_cuda, RpDeviceMemory *out) {
    return rp_device_memory_sized(device, require_cuda, out, sizeof *out);
}

/* Measured bandwidth of the device's memory in bytes per second: bytes read plus bytes written by a copy of `bytes`
 * within it, the best of ten runs. Decoding speed is reported against this limit. RP_E_NOMEM if two buffers of that
 * size do not fit, RP_E_CUDA; otherwise as rp_cuda_device_info. */
RP_API RP_NODISCARD RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s);

#ifdef __cplusplus
}
#endif
#endif
