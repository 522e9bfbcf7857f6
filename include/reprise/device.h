/* device.h - what can run a plan here.
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

/* How many CUDA devices there are. RP_E_NOT_AVAILABLE, with *n_devices 0 and the reason as text, in a build without the
 * CUDA toolkit, without a driver, or without a device. */
RP_NODISCARD RpStatus rp_cuda_probe(int *n_devices);

typedef struct CudaDeviceInfo {
    char   name[256];
    int    major, minor; /* compute capability */
    int    n_sm;
    size_t total_bytes, free_bytes, l2_bytes;
    int    driver, runtime; /* versions of CUDA: 1000 * major + 10 * minor */
    bool   has_code;        /* this build's kernels run on it */
    bool   has_loops;       /* whole replies in one launch */
} CudaDeviceInfo;

/* RP_E_ARG for a number that is none of the probed; otherwise as rp_cuda_probe. */
RP_NODISCARD RpStatus rp_cuda_device_info(int index, CudaDeviceInfo *out);

/* The memory of the device that executors would be opened on: "auto", "cpu", "cuda" or "cuda:N", NULL: REPRISE_DEVICE. */
typedef struct DeviceMemory {
    char   id[16];     /* "cpu", "cuda:0" */
    int    index;      /* of a CUDA device */
    bool   is_own;     /* weights have to be copied there */
    size_t free_bytes; /* that can be taken: of a device but for what its driver needs, of the host without swapping, 0
                          where nobody tells */
} DeviceMemory;

RP_NODISCARD RpStatus rp_device_memory(const char *device, bool require_cuda, DeviceMemory *out);

/* Bytes a second, read and written, that a copy of `bytes` within the device's memory reaches: the best of some runs, the
 * limit that decoding is measured by. RP_E_NOMEM where two buffers of that size do not fit. */
RP_NODISCARD RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s);

#ifdef __cplusplus
}
#endif
#endif
