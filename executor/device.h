/* device.h - the choice of the device that an executor runs on. */
#ifndef EXECUTOR_DEVICE_H
#define EXECUTOR_DEVICE_H

#include "reprise/executor.h"

/* Bytes of device memory left to the driver. An executor at open knows its needs exactly, not by estimate,
 * and leaves only half of it. */
enum { RP_DEVICE_MARGIN = 64 << 20 };

extern const bool rp_cuda_built; /* true if the library has CUDA kernels */

typedef struct DeviceChoice {
    bool        cuda;        /* CUDA device or CPU */
    bool        fell_back;   /* "auto" chose the CPU in a library that was built with CUDA (I10) */
    const char *name;        /* as requested */
    char        reason[256]; /* why "auto" did not choose a CUDA device; "" otherwise */
} DeviceChoice;

/* `name` is "auto", "cpu", "cuda" or "cuda:N"; NULL: the value of REPRISE_DEVICE. A device that is named
 * or required but missing is an error; only "auto" falls back to the CPU. */
RP_NODISCARD RpStatus rp_device_choose(const char *name, bool require_cuda, DeviceChoice *out);

/* N for "cuda:N", 0 for any other name. */
int rp_device_index(const char *name);

#endif
