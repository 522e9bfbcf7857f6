#include "reprise/device.h"

#include <cuda_runtime_api.h>

/* The driver's version is the one question that succeeds on every machine: 0 means that there is no driver. */
RpStatus rp_cuda_probe(int *n_devices) {
    int               driver = 0;
    const cudaError_t asked  = cudaDriverGetVersion(&driver);
    *n_devices               = 0;
    if (asked != cudaSuccess) return rp_fail(RP_E_NOT_AVAILABLE, "CUDA driver: %s", cudaGetErrorString(asked));
    if (driver == 0) return rp_fail(RP_E_NOT_AVAILABLE, "no CUDA driver is installed");
    const cudaError_t counted = cudaGetDeviceCount(n_devices);
    if (counted == cudaSuccess && *n_devices > 0) return RP_OK;
    *n_devices = 0;
    return rp_fail(RP_E_NOT_AVAILABLE, "CUDA driver %d.%d: %s", driver / 1000, driver % 1000 / 10,
                   counted == cudaSuccess ? "no device" : cudaGetErrorString(counted));
}
