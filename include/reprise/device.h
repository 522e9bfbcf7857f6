/* device.h - the devices of this machine that can run a plan, and their memory; allocation of memory of a CUDA device
 * for data outside of graphs. Apart from such memory nothing stays open after a call.
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
RP_API RP_NODISCARD RpStatus        rp_cuda_device_info_sized(int index, RpCudaDeviceInfo *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_cuda_device_info(int index, RpCudaDeviceInfo *out) {
    return rp_cuda_device_info_sized(index, out, sizeof *out);
}

typedef struct RpDeviceMemory {
    char   id[16];     /* "cpu", "cuda:0" */
    int    index;      /* of a CUDA device */
    bool   is_own;     /* separate from host memory: weights must be copied there */
    size_t free_bytes; /* of a GPU: free memory less 64 MiB for the driver; of the host: memory available without
                        * swapping, within the limits of control groups; 0 if the system does not tell */
} RpDeviceMemory;

/* The memory of the device that rp_executor_open would choose. `device`: "auto", "cpu", "cuda" or "cuda:N", borrowed
 * for the call; NULL: REPRISE_DEVICE. RP_E_ARG for another name, RP_E_NOT_AVAILABLE if a named or required device is
 * missing, RP_E_CUDA. */
RP_API RP_NODISCARD RpStatus        rp_device_memory_sized(const char *device, bool require_cuda, RpDeviceMemory *out,
                                                           size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_device_memory(const char *device, bool require_cuda, RpDeviceMemory *out) {
    return rp_device_memory_sized(device, require_cuda, out, sizeof *out);
}

/* Measured bandwidth of the device's memory in bytes per second: bytes read plus bytes written by a copy of `bytes`
 * within it, the best of ten runs. Decoding speed is reported against this limit. RP_E_NOMEM if two buffers of that
 * size do not fit, RP_E_CUDA; otherwise as rp_cuda_device_info. */
RP_API RP_NODISCARD RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s);

/* A constant of one device that sizes grids or prefetches of the kernels. No result depends on it. */
enum { RP_TUNED_CONSTANTS = 8, RP_TUNED_CANDIDATES = 4 };
typedef struct RpTunedConstant {
    const char *name;                            /* as in docs/cuda.md; static storage */
    int         value, model;                    /* the value in use; the value without a measurement */
    int         n_candidates;                    /* that were measured; 0: none, so `value` is `model` */
    int         candidates[RP_TUNED_CANDIDATES]; /* the first one is `model` */
    double      us[RP_TUNED_CANDIDATES];         /* median time of the measured kernels with each, in microseconds */
} RpTunedConstant;

typedef enum RpTuningOrigin { RP_TUNING_MODEL = 0, RP_TUNING_MEASURED, RP_TUNING_CACHED } RpTuningOrigin;

typedef struct RpCudaTuningInfo {
    RpTuningOrigin origin;
    char text[512]; /* "measured in 0.21 s", "from the cache", "model: REPRISE_TUNE=off"; why, if something failed */
    int  n_constants;
    RpTunedConstant constants[RP_TUNED_CONSTANTS];
} RpCudaTuningInfo;

/* The constants that an executor on this device would use (REPRISE_TUNE). Like the first open of an executor, this call
 * measures them, for at most about two seconds, if they are not in the cache. RP_E_ARG for an unknown value of the
 * option; otherwise as rp_cuda_device_info. */
RP_API RP_NODISCARD RpStatus        rp_cuda_tuning_info_sized(int index, RpCudaTuningInfo *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_cuda_tuning_info(int index, RpCudaTuningInfo *out) {
    return rp_cuda_tuning_info_sized(index, out, sizeof *out);
}

/* ---- memory of a CUDA device ----
 *
 *   RpCudaMemory *m;
 *   RP_TRY(rp_cuda_memory_new(0, bytes, &m));
 *   RP_TRY(rp_cuda_memory_write(m, 0, values, bytes));
 *   launch_something(rp_cuda_memory_data(m));
 *   RP_TRY(rp_cuda_memory_read(m, 0, values, bytes));
 *   rp_cuda_memory_free(m);
 *
 * Copies return when they are done. They do not wait for work of other streams that uses the memory. Any thread may
 * use it, one at a time. Errors: RP_E_ARG for bytes outside of the memory, RP_E_CUDA. In a build without CUDA no
 * memory can be made: RP_E_NOT_AVAILABLE. */
typedef struct RpCudaMemory RpCudaMemory;

/* `bytes` > 0 on device `index`, with undefined contents. The caller frees *out. RP_E_NOMEM; otherwise as
 * rp_cuda_device_info. */
RP_API RP_NODISCARD RpStatus rp_cuda_memory_new(int index, size_t bytes, RpCudaMemory **out);
RP_API void                  rp_cuda_memory_free(RpCudaMemory *m); /* NULL is allowed */

/* The address on the device, owned by `m`, aligned to 256 bytes; its size; the index of its device, -1 for NULL. */
RP_API void  *rp_cuda_memory_data(const RpCudaMemory *m);
RP_API size_t rp_cuda_memory_bytes(const RpCudaMemory *m);
RP_API int    rp_cuda_memory_device(const RpCudaMemory *m);

/* Copies `bytes`: from host memory to byte `at`, from byte `at` to host memory, and within a device or between two. */
RP_API RP_NODISCARD RpStatus rp_cuda_memory_write(RpCudaMemory *m, size_t at, const void *from, size_t bytes);
RP_API RP_NODISCARD RpStatus rp_cuda_memory_read(const RpCudaMemory *m, size_t at, void *to, size_t bytes);
RP_API RP_NODISCARD RpStatus rp_cuda_memory_copy(RpCudaMemory *to, size_t to_at, const RpCudaMemory *from,
                                                 size_t from_at, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
