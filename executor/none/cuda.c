/* The CUDA backend of a build without the CUDA toolkit: every call fails with RP_E_NOT_AVAILABLE. */
#include "executor/backend.h"
#include "executor/device.h"
#include "reprise/device.h"

const bool rp_cuda_built = false;

static RpStatus none(void) {
    return rp_fail(RP_E_NOT_AVAILABLE, "this build was made without the CUDA toolkit");
}

RpStatus rp_cuda_probe(int *n_devices) {
    *n_devices = 0;
    return none();
}

RpStatus rp_cuda_device_info(int index, RpCudaDeviceInfo *out) {
    (void)index;
    *out = (RpCudaDeviceInfo){.name = ""};
    return none();
}

RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s) {
    (void)index, (void)bytes;
    *bytes_per_s = 0.0;
    return none();
}

RpStatus rp_cuda_plan_launch(const ExecPlan *plan, int i, RpStepLaunch *out) {
    RP_TRY(rp_executor_describe(plan, i, out));
    return none();
}

static RpStatus open_none(RpExecutor *e, const RpExecutorOptions *o) {
    (void)e, (void)o;
    return none();
}

static void close_none(RpExecutor *e) { (void)e; }

const Backend rp_cuda_backend = {.bytes = sizeof(RpExecutor), .open = open_none, .close = close_none};
