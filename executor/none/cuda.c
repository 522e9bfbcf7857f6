/* The CUDA backend of a build without the CUDA toolkit: every call fails with RP_E_NOT_AVAILABLE. */
#include "base/sized.h"

#include "base/argument.h"
#include "executor/backend.h"
#include "executor/device.h"
#include "reprise/device.h"

const bool rp_cuda_built = false;

static RpStatus none(void) {
    return rp_fail(RP_E_NOT_AVAILABLE, "this build was made without the CUDA toolkit");
}

RpStatus rp_cuda_probe(int *n_devices) {
    RP_NOT_NULL(n_devices, "n_devices");

    *n_devices = 0;
    return none();
}

RpStatus rp_cuda_device_info_sized(int index, RpCudaDeviceInfo *out, size_t out_bytes) {
    RP_NOT_NULL(out, "out");

    const RpCudaDeviceInfo info = {.name = ""};
    (void)index;
    rp_sized_out(out, out_bytes, &info, sizeof info);
    return none();
}

RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s) {
    RP_NOT_NULL(bytes_per_s, "bytes_per_s");

    (void)index, (void)bytes;
    *bytes_per_s = 0.0;
    return none();
}

RpStatus rp_cuda_plan_launch_sized(const ExecPlan *plan, int i, RpStepLaunch *out, size_t out_bytes) {
    RP_NOT_NULL(plan, "plan");
    RP_NOT_NULL(out, "out");

    RpStepLaunch l;
    RP_TRY(rp_executor_describe(plan, i, &l));
    rp_sized_out(out, out_bytes, &l, sizeof l);
    return none();
}

static RpStatus open_none(RpExecutor *e, const RpExecutorOptions *o) {
    (void)e, (void)o;
    return none();
}

static void close_none(RpExecutor *e) { (void)e; }

const Backend rp_cuda_backend = {.bytes = sizeof(RpExecutor), .open = open_none, .close = close_none};
