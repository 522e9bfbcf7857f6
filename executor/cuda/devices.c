/* Lists CUDA devices and measures their copy bandwidth (reprise/device.h), without an executor. */
#include "reprise/device.h"

#include "base/argument.h"
#include "base/loop.h"
#include "base/sized.h"

#include "executor/cuda/cuda.h"
#include "executor/device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

const bool rp_cuda_built = true;

/* Asks for the driver's version first: the one call that succeeds on every machine, with 0 for no driver. */
RpStatus rp_cuda_probe(int *n_devices) {
    RP_NOT_NULL(n_devices, "n_devices");

    int               driver = 0;
    const cudaError_t asked  = cudaDriverGetVersion(&driver);
    *n_devices               = 0;
    if (asked != cudaSuccess) return rp_fail(RP_E_NOT_AVAILABLE, "CUDA driver: %s", cudaGetErrorString(asked));
    if (driver == 0) return rp_fail(RP_E_NOT_AVAILABLE, "no CUDA driver is installed");
    const cudaError_t counted = cudaGetDeviceCount(n_devices);
    if (counted == cudaSuccess && *n_devices > 0) return RP_OK;
    (void)cudaGetLastError();
    *n_devices = 0;
    return rp_fail(RP_E_NOT_AVAILABLE, "CUDA driver %d.%d: %s", driver / 1000, driver % 1000 / 10,
                   counted == cudaSuccess ? "no device" : cudaGetErrorString(counted));
}

static RpStatus check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return RP_OK;
    (void)cudaGetLastError();
    return rp_fail(e == cudaErrorMemoryAllocation ? RP_E_NOMEM : RP_E_CUDA, "%s: %s", what, cudaGetErrorString(e));
}

static RpStatus select_device(int index) {
    int n;
    RP_TRY(rp_cuda_probe(&n));
    if (index < 0 || index >= n) return rp_fail(RP_E_ARG, "CUDA device %d: must be from 0 to %d", index, n - 1);
    return check(cudaSetDevice(index), "selection of the device");
}

static RpStatus device_info(int index, RpCudaDeviceInfo *out) {
    struct cudaDeviceProp     p;
    struct cudaFuncAttributes a;
    RP_TRY(select_device(index));
    RP_TRY(check(cudaGetDeviceProperties(&p, index), "properties of the device"));
    RP_TRY(check(cudaMemGetInfo(&out->free_bytes, &out->total_bytes), "memory of the device"));
    RP_TRY(check(cudaDriverGetVersion(&out->driver), "version of the driver"));
    RP_TRY(check(cudaRuntimeGetVersion(&out->runtime), "version of the runtime"));
    snprintf(out->name, sizeof out->name, "%.255s", p.name);
    out->major     = p.major;
    out->minor     = p.minor;
    out->n_sm      = p.multiProcessorCount;
    out->l2_bytes  = (size_t)p.l2CacheSize;
    out->has_code  = cudaFuncGetAttributes(&a, rp_cuda_loop_kernel()) == cudaSuccess;
    out->has_loops = out->driver >= CUDA_LOOP_DRIVER;
    (void)cudaGetLastError();
    return RP_OK;
}

RpStatus rp_cuda_device_info_sized(int index, RpCudaDeviceInfo *out, size_t out_bytes) {
    RP_NOT_NULL(out, "out");

    RpCudaDeviceInfo info = {.name = ""};
    const RpStatus   st   = device_info(index, &info);
    rp_sized_out(out, out_bytes, &info, sizeof info);
    return st;
}

RpStatus rp_cuda_tuning_info_sized(int index, RpCudaTuningInfo *out, size_t out_bytes) {
    RP_NOT_NULL(out, "out");

    RpCudaTuningInfo info = {.text = ""};
    CudaDevice      *d    = NULL;
    RpStatus         st   = select_device(index);
    if (st == RP_OK) st = rp_cuda_device_open(index, &d);
    if (st == RP_OK) info = d->tuned;
    rp_cuda_device_close(d);
    rp_sized_out(out, out_bytes, &info, sizeof info);
    return st;
}

/* Copies `bytes` within the device ten times and keeps the best rate; each byte is read once and written once, so a
 * copy moves 2 * bytes. */
typedef struct CopyBench {
    void        *from, *to;
    cudaStream_t stream;
    cudaEvent_t  before, after;
} CopyBench;

static RpStatus copy_once(const CopyBench *b, size_t bytes, double *best) {
    float ms;
    RP_TRY(check(cudaEventRecord(b->before, b->stream), "event"));
    RP_TRY(check(cudaMemcpyAsync(b->to, b->from, bytes, cudaMemcpyDeviceToDevice, b->stream), "copy"));
    RP_TRY(check(cudaEventRecord(b->after, b->stream), "event"));
    RP_TRY(check(cudaStreamSynchronize(b->stream), "copy"));
    RP_TRY(check(cudaEventElapsedTime(&ms, b->before, b->after), "event"));
    const double rate = ms > 0.0f ? 2e3 * (double)bytes / (double)ms : 0.0;
    if (rate > *best) *best = rate;
    return RP_OK;
}

static RpStatus copy_bench(CopyBench *b, size_t bytes, double *best) {
    RP_TRY(check(cudaMalloc(&b->from, bytes), "memory to copy from"));
    RP_TRY(check(cudaMalloc(&b->to, bytes), "memory to copy to"));
    RP_TRY(check(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "stream"));
    RP_TRY(check(cudaEventCreateWithFlags(&b->before, cudaEventDefault), "event"));
    RP_TRY(check(cudaEventCreateWithFlags(&b->after, cudaEventDefault), "event"));
    RP_TRY(check(cudaMemsetAsync(b->from, 0, bytes, b->stream), "memory to copy from"));
    for (int i = 0; i < 10; i++) RP_TRY(copy_once(b, bytes, best));
    return RP_OK;
}

RpStatus rp_cuda_copy_bandwidth(int index, size_t bytes, double *bytes_per_s) {
    RP_NOT_NULL(bytes_per_s, "bytes_per_s");

    CopyBench b  = {0};
    *bytes_per_s = 0.0;
    RP_TRY(select_device(index));
    const RpStatus st = copy_bench(&b, bytes, bytes_per_s);
    if (b.before != NULL) (void)cudaEventDestroy(b.before);
    if (b.after != NULL) (void)cudaEventDestroy(b.after);
    if (b.stream != NULL) (void)cudaStreamDestroy(b.stream);
    (void)cudaFree(b.from);
    (void)cudaFree(b.to);
    return st;
}
