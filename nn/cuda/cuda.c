/* Runs an op on a CUDA device, and the functions of nn.h for devices, memory and streams. The current device of a
 * thread is that of the CUDA runtime, so it is shared with other CUDA code of the process, such as PyTorch.
 *
 * Kernels are enqueued on the caller's stream. Nothing here waits except the functions that say so in nn.h. */
#include "nn/call.h"
#include "nn/cuda/blas.h"

#include "base/tuning.h"
#include "reprise/device.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

/* Turns an error of the runtime into a status. cudaGetLastError clears it: otherwise the next call of this thread
 * that asks would find it again. */
static RpStatus check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return RP_OK;
    (void)cudaGetLastError();
    return rp_fail(e == cudaErrorMemoryAllocation ? RP_E_NOMEM : RP_E_CUDA, "%s: %s", what, cudaGetErrorString(e));
}

RpStatus rp_nn_cuda_check(void) {
    static atomic_bool available; /* it stays so */
    int                n;
    if (atomic_load_explicit(&available, memory_order_relaxed)) return RP_OK;
    RP_TRY(rp_cuda_probe(&n));
    atomic_store_explicit(&available, true, memory_order_relaxed);
    return RP_OK;
}

/* The current device, and its constants that grids are sized by. Constants that an executor would measure
 * (REPRISE_TUNE) keep their defaults: a single call has no time to measure. */
static RpStatus tuning_of_device(int *device, RpCudaTuning *out) {
    static atomic_int known[MAX_DEVICES]; /* number of multiprocessors, 0: not asked yet */
    int               index, n_sm = 0;
    RP_TRY(check(cudaGetDevice(&index), "current device"));
    *device         = index;
    const bool kept = index >= 0 && index < MAX_DEVICES;
    if (kept) n_sm = atomic_load_explicit(&known[index], memory_order_relaxed);
    if (n_sm == 0)
        RP_TRY(check(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, index),
                     "multiprocessors of the device"));
    if (kept) atomic_store_explicit(&known[index], n_sm, memory_order_relaxed);
    *out              = rp_tuning_defaults(n_sm);
    out->prefill_tile = RP_PREFILL_INT8; /* the other one needs scratch memory */
    return RP_OK;
}

/* The first bytes of the scratch memory are counters by which blocks find out which arrives last. Kernels leave them
 * at 0, but the workspace comes from the caller with any contents, so each call clears them. */
RpStatus rp_nn_run_cuda(void *stream, TensorOp op, const RpOpArgs *args, NnMemory memory) {
    RpCudaTuning tuning;
    int          device;
    RP_TRY(tuning_of_device(&device, &tuning));
    RpKernelCtx ctx = {
        .stream = stream, .op = op, .tuning = &tuning, .scratch = memory.data, .scratch_bytes = memory.bytes};
    const size_t zeros = memory.bytes < RP_SCRATCH_ZEROS ? memory.bytes : RP_SCRATCH_ZEROS; /* arrival counters */
    if (zeros > 0 && rp_cuda_scratch_bytes(op, args, &ctx) > 0)
        RP_TRY(check(cudaMemsetAsync(memory.data, 0, zeros, stream), "workspace"));
    return op == RP_OP_GEMM ? rp_nn_run_gemm(device, args, &ctx) : rp_cuda_kernel(op)(args, &ctx);
}

RpStatus rp_nn_memory_cuda(TensorOp op, const RpOpArgs *args, size_t *bytes) {
    RpCudaTuning tuning;
    int          device;
    RP_TRY(tuning_of_device(&device, &tuning));
    const RpKernelCtx ctx = {.op = op, .tuning = &tuning};
    *bytes                = rp_cuda_scratch_bytes(op, args, &ctx);
    return RP_OK;
}

/* ---- devices ---- */

RpStatus rp_nn_call_device_count(int32_t *n) {
    RP_NN_NOT_NULL("device_count", n);
    return rp_cuda_probe(n);
}

RpStatus rp_nn_call_device_set(int32_t index) {
    int n;
    RP_TRY(rp_cuda_probe(&n));
    if (index < 0 || index >= n) return rp_fail(RP_E_ARG, "CUDA device %d: must be from 0 to %d", index, n - 1);
    return check(cudaSetDevice(index), "selection of the device");
}

RpStatus rp_nn_call_device_get(int32_t *index) {
    RP_NN_NOT_NULL("device_get", index);
    RP_TRY(rp_nn_cuda_check());
    return check(cudaGetDevice(index), "current device");
}

/* Facts about a device. The current device stays. */
static RpStatus device_info(int32_t index, RpCudaDeviceInfo *out) {
    int current;
    RP_TRY(rp_nn_cuda_check());
    RP_TRY(check(cudaGetDevice(&current), "current device"));
    const RpStatus st = rp_cuda_device_info(index, out);
    RP_TRY(check(cudaSetDevice(current), "selection of the device"));
    return st;
}

RpStatus rp_nn_call_device_name(int32_t index, char *name, int64_t bytes) {
    RpCudaDeviceInfo info;
    RP_NN_NOT_NULL("device_name", name);
    if (bytes < 1) return rp_fail(RP_E_ARG, "device_name: room for %lld bytes: must be 1 or more", (long long)bytes);
    RP_TRY(device_info(index, &info));
    const size_t length = strlen(info.name), room = (size_t)bytes - 1;
    memcpy(name, info.name, length < room ? length : room);
    name[length < room ? length : room] = '\0';
    return RP_OK;
}

RpStatus rp_nn_call_device_properties(int32_t index, int32_t *major, int32_t *minor, int32_t *multiprocessors) {
    RpCudaDeviceInfo info;
    RP_NN_NOT_NULL("device_properties", major);
    RP_NN_NOT_NULL("device_properties", minor);
    RP_NN_NOT_NULL("device_properties", multiprocessors);
    RP_TRY(device_info(index, &info));
    *major = info.major, *minor = info.minor, *multiprocessors = info.n_sm;
    return RP_OK;
}

RpStatus rp_nn_call_device_memory(int32_t index, int64_t *free_bytes, int64_t *total_bytes) {
    RpCudaDeviceInfo info;
    RP_NN_NOT_NULL("device_memory", free_bytes);
    RP_NN_NOT_NULL("device_memory", total_bytes);
    RP_TRY(device_info(index, &info));
    *free_bytes = (int64_t)info.free_bytes, *total_bytes = (int64_t)info.total_bytes;
    return RP_OK;
}

/* ---- memory and streams ---- */

/* Freed by rp_nn_free. If cudaMalloc fails for any reason, the status is RP_E_NOMEM. */
RpStatus rp_nn_call_malloc(int64_t bytes, void **out) {
    RP_NN_NOT_NULL("malloc", out);
    *out = NULL;
    if (bytes < 0) return rp_fail(RP_E_ARG, "malloc: %lld bytes: must be 0 or more", (long long)bytes);
    RP_TRY(rp_nn_cuda_check());
    if (bytes == 0) return RP_OK;
    if (cudaMalloc(out, (size_t)bytes) == cudaSuccess) return RP_OK;
    (void)cudaGetLastError();
    *out = NULL;
    return rp_fail(RP_E_NOMEM, "malloc: %lld bytes could not be allocated", (long long)bytes);
}

RpStatus rp_nn_call_free(void *memory) {
    if (memory == NULL) return RP_OK;
    RP_TRY(rp_nn_cuda_check());
    return check(cudaFree(memory), "free");
}

static RpStatus copy(const char *function, void *to, const void *from, int64_t bytes, void *stream,
                     enum cudaMemcpyKind kind) {
    if (bytes < 0) return rp_fail(RP_E_ARG, "%s: %lld bytes: must be 0 or more", function, (long long)bytes);
    RP_TRY(rp_nn_cuda_check());
    if (bytes == 0) return RP_OK;
    RP_NN_NOT_NULL(function, to);
    RP_NN_NOT_NULL(function, from);
    return check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream), function);
}

RpStatus rp_nn_call_copy_to_device(void *to, const void *from, int64_t bytes, void *stream) {
    return copy("copy_to_device", to, from, bytes, stream, cudaMemcpyHostToDevice);
}

RpStatus rp_nn_call_copy_to_host(void *to, const void *from, int64_t bytes, void *stream) {
    return copy("copy_to_host", to, from, bytes, stream, cudaMemcpyDeviceToHost);
}

RpStatus rp_nn_call_copy_on_device(void *to, const void *from, int64_t bytes, void *stream) {
    return copy("copy_on_device", to, from, bytes, stream, cudaMemcpyDeviceToDevice);
}

/* Non-blocking: work on the stream does not wait for the default stream, nor the other way round. */
RpStatus rp_nn_call_stream_create(void **out) {
    cudaStream_t stream = NULL;
    RP_NN_NOT_NULL("stream_create", out);
    *out = NULL;
    RP_TRY(rp_nn_cuda_check());
    RP_TRY(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream_create"));
    *out = stream;
    return RP_OK;
}

RpStatus rp_nn_call_stream_sync(void *stream) {
    RP_TRY(rp_nn_cuda_check());
    return check(cudaStreamSynchronize(stream), "stream_sync");
}

/* Waits first, so that a failure of a kernel is reported and not lost with the stream. */
RpStatus rp_nn_call_stream_destroy(void *stream) {
    if (stream == NULL) return RP_OK;
    RP_TRY(rp_nn_cuda_check());
    RP_TRY(check(cudaStreamSynchronize(stream), "stream_destroy"));
    return check(cudaStreamDestroy(stream), "stream_destroy");
}
