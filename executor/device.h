/* device.h - which device an executor is to run on. */
#ifndef EXECUTOR_DEVICE_H
#define EXECUTOR_DEVICE_H

#include "reprise/executor.h"

/* Memory of a device that is left to its driver. Executors that know better than an estimate what they take
 * leave half. */
enum { RP_DEVICE_MARGIN = 64 << 20 };

extern const bool rp_cuda_built; /* with kernels for GPUs */

typedef struct DeviceChoice {
    bool        cuda, fell_back;
    const char *name; /* as it was asked for */
    char        reason[256];
} DeviceChoice;

/* From "auto", "cpu", "cuda" or "cuda:N"; NULL: REPRISE_DEVICE. */
RP_NODISCARD RpStatus rp_device_choose(const char *name, bool require_cuda, DeviceChoice *out);

/* N of "cuda:N"; 0 of anything else that was chosen. */
int rp_device_index(const char *name);

#endif
