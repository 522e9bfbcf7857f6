/* Memory of a CUDA device for programs (reprise/device.h), without an executor. */
#include "base/argument.h"
#include "executor/cuda/cuda.h"
#include "reprise/device.h"

#include <stdlib.h>

struct RpCudaMemory {
    CudaDevice device; /* only its number and name, for rp_cuda_alloc and rp_cuda_check */
    void      *data;
    size_t     bytes;
};

static RpStatus open_memory(RpCudaMemory *m, int index, size_t bytes) {
    RpCudaDeviceInfo info;
    RP_TRY(rp_cuda_device_info(index, &info));
    m->device.index = index;
    m->bytes        = bytes;
    snprintf(m->device.id, sizeof m->device.id, "cuda:%d", index);
    RP_TRY(rp_cuda_select(&m->device));
    return rp_cuda_alloc(&m->device, bytes, "memory", &m->data);
}

RpStatus rp_cuda_memory_new(int index, size_t bytes, RpCudaMemory **out) {
    RP_OUT(out, "out");

    if (bytes == 0) return rp_fail(RP_E_ARG, "0 bytes of device memory: must be at least 1");
    RpCudaMemory *m = calloc(1, sizeof *m);
    if (m == NULL) return rp_fail(RP_E_NOMEM, "out of memory");
    const RpStatus st = open_memory(m, index, bytes);
    if (st != RP_OK) {
        free(m);
        return st;
    }
    *out = m;
    return RP_OK;
}

void rp_cuda_memory_free(RpCudaMemory *m) {
    if (m == NULL) return;
    /* cudaFree would wait for a run that does not end, and the run may use the memory. */
    if (!rp_cuda_hangs(m->device.index, NULL, 0)) {
        (void)cudaSetDevice(m->device.index);
        (void)cudaFree(m->data);
    }
    free(m);
}

void  *rp_cuda_memory_data(const RpCudaMemory *m) { return m != NULL ? m->data : NULL; }
size_t rp_cuda_memory_bytes(const RpCudaMemory *m) { return m != NULL ? m->bytes : 0; }
int    rp_cuda_memory_device(const RpCudaMemory *m) { return m != NULL ? m->device.index : -1; }

static RpStatus check_range(const RpCudaMemory *m, size_t at, size_t bytes) {
    if (at <= m->bytes && bytes <= m->bytes - at) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %zu bytes at %zu: must be inside of the %zu bytes of the memory", m->device.id, bytes,
                   at, m->bytes);
}

static RpStatus copy(const RpCudaMemory *m, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    CudaDevice d = m->device;
    if (bytes == 0) return RP_OK;
    RP_TRY(rp_cuda_select(&d));
    RP_TRY(rp_cuda_check(&d, cudaMemcpy(to, from, bytes, kind), "copy"));
    return rp_cuda_check(&d, cudaStreamSynchronize(NULL), "copy"); /* not all kinds of copies wait by themselves */
}

RpStatus rp_cuda_memory_write(RpCudaMemory *m, size_t at, const void *from, size_t bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(from, "from");

    RP_TRY(check_range(m, at, bytes));
    return copy(m, (char *)m->data + at, from, bytes, cudaMemcpyHostToDevice);
}

RpStatus rp_cuda_memory_read(const RpCudaMemory *m, size_t at, void *to, size_t bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(to, "to");

    RP_TRY(check_range(m, at, bytes));
    return copy(m, to, (const char *)m->data + at, bytes, cudaMemcpyDeviceToHost);
}

RpStatus rp_cuda_memory_copy(RpCudaMemory *to, size_t to_at, const RpCudaMemory *from, size_t from_at, size_t bytes) {
    RP_NOT_NULL(to, "to");
    RP_NOT_NULL(from, "from");

    RP_TRY(check_range(to, to_at, bytes));
    RP_TRY(check_range(from, from_at, bytes));
    /* Between two devices too, as the addresses say. */
    return copy(to, (char *)to->data + to_at, (const char *)from->data + from_at, bytes, cudaMemcpyDeviceToDevice);
}
