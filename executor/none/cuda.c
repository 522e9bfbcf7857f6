/* The CUDA backend of a build without the CUDA toolkit: every call fails with RP_E_NOT_AVAILABLE. */
#include "base/sized.h"

#include "base/argument.h"
#include "executor/backend.h"
#include "executor/device.h"
#include "reprise/device.h"
#include "reprise/source.h"

const bool rp_cuda_built = false;

static RpStatus none(void) { return rp_fail(RP_E_NOT_AVAILABLE, "this build was made without the CUDA toolkit"); }

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

RpStatus rp_cuda_tuning_info_sized(int index, RpCudaTuningInfo *out, size_t out_bytes) {
    RP_NOT_NULL(out, "out");

    const RpCudaTuningInfo info = {.text = ""};
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

RpStatus rp_cuda_memory_new(int index, size_t bytes, RpCudaMemory **out) {
    RP_OUT(out, "out");

    (void)index, (void)bytes;
    return none();
}

/* Without rp_cuda_memory_new there is no memory but NULL. */
void   rp_cuda_memory_free(RpCudaMemory *m) { (void)m; }
void  *rp_cuda_memory_data(const RpCudaMemory *m) { return (void)m, NULL; }
size_t rp_cuda_memory_bytes(const RpCudaMemory *m) { return (void)m, (size_t)0; }
int    rp_cuda_memory_device(const RpCudaMemory *m) { return (void)m, -1; }

RpStatus rp_cuda_memory_write(RpCudaMemory *m, size_t at, const void *from, size_t bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(from, "from");

    (void)at, (void)bytes;
    return none();
}

RpStatus rp_cuda_memory_read(const RpCudaMemory *m, size_t at, void *to, size_t bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(to, "to");

    (void)at, (void)bytes;
    return none();
}

RpStatus rp_cuda_memory_copy(RpCudaMemory *to, size_t to_at, const RpCudaMemory *from, size_t from_at, size_t bytes) {
    RP_NOT_NULL(to, "to");
    RP_NOT_NULL(from, "from");

    (void)to_at, (void)from_at, (void)bytes;
    return none();
}

RpStatus rp_cuda_source_compile_sized(const RpCudaSource *source, size_t source_bytes, int major, int minor,
                                      char **log) {
    RP_NOT_NULL(source, "source");
    RP_OUT(log, "log");

    (void)source_bytes, (void)major, (void)minor;
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
