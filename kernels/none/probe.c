#include "reprise/device.h"

RpStatus rp_cuda_probe(int *n_devices) {
    *n_devices = 0;
    return rp_fail(RP_E_NOT_AVAILABLE, "this build was made without the CUDA toolkit");
}
