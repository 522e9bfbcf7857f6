/* device.h - what can run a plan here.
 *
 *   int n;
 *   if (rp_cuda_probe(&n) != RP_OK) printf("CPU only: %s\n", rp_last_error());
 */
#ifndef REPRISE_DEVICE_H
#define REPRISE_DEVICE_H

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many CUDA devices there are. RP_E_NOT_AVAILABLE, with *n_devices 0 and the reason as text, in a build without the
 * CUDA toolkit, without a driver, or without a device. This version runs plans on the CPU only. */
RP_NODISCARD RpStatus rp_cuda_probe(int *n_devices);

#ifdef __cplusplus
}
#endif
#endif
