// sim_memory.cpp - device memory, pinned host memory, copies and memsets.
//
// Both kinds are host memory in one address space. A map by address knows every allocation, its size and kind,
// so that bounds and directions of copies are checked. New memory holds 0xff bytes (NaN in f32) and counts as
// never written if it is device memory.
#include "sim/device/sim_internal.h"
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

static size_t limit = (size_t)16 << 30, used; // bytes of device memory; limit 0: none

static std::map<char *, SimAlloc> &allocs() {
    static std::map<char *, SimAlloc> m;
    return m;
}
static const SimAlloc *hit; // the last allocation found; reset when one is freed

const SimAlloc *sim_alloc_of(const void *p) {
    auto &m = allocs();
    if (hit && (char *)p >= hit->p && (char *)p < hit->p + hit->n) return hit;
    auto i = m.upper_bound((char *)p);
    if (i == m.begin()) return nullptr;
    --i;
    if ((char *)p >= i->second.p + i->second.n) return nullptr;
    return hit = &i->second;
}
void sim_note_written(const void *p, size_t n) {
    const SimAlloc *a = sim_alloc_of(p);
    if (a != nullptr && a->written != nullptr) memset(a->written + ((const char *)p - a->p), 1, n);
}
void sim_all_written(void) {
    for (auto &i : allocs()) {
        SimAlloc &a = i.second;
        if (a.written != nullptr && !a.whole) memset(a.written, 1, a.n);
        a.whole = true;
    }
}
static const SimAlloc *alloc_exact(const void *p) {
    auto i = allocs().find((char *)p);
    return i == allocs().end() ? nullptr : &i->second;
}
// New memory of n bytes. Workspaces of many megabytes, of which a test uses little, are private mappings of one file of
// 0xff bytes, whose pages are copied when they are written. The address sanitizer has no red zones around a mapping.
static char *new_memory(size_t n, size_t *mapped) {
    void *p = nullptr;
    *mapped = 0;
#ifndef __SANITIZE_ADDRESS__
    enum { CHUNK = 1 << 20, LARGEST = 1 << 26 };
    static const int fd = memfd_create("new device memory", MFD_CLOEXEC);
    static size_t    size;
    const size_t     whole = (n + CHUNK - 1) / CHUNK * CHUNK;
    if (n >= CHUNK && n <= LARGEST && fd >= 0) {
        static const std::vector<char> bytes(CHUNK, (char)0xff);
        while (size < whole && pwrite(fd, bytes.data(), CHUNK, (off_t)size) == CHUNK) size += CHUNK;
        p = size < whole ? MAP_FAILED : mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) return *mapped = whole, (char *)p;
    }
#endif
    if (posix_memalign(&p, 256, n)) return nullptr;
    memset(p, 0xff, n);
    return (char *)p;
}
// Device memory counts towards the limit. Memory of size 0 is a null pointer.
static cudaError_t alloc(void **p, size_t n, int kind) {
    if (auto e = sim_no_capture("allocation while a stream captures")) return e;
    if (!n) {
        *p = nullptr;
        return cudaSuccess;
    }
    if (kind == 1 && limit != 0 && (used > limit || n > limit - used)) return sim_err(cudaErrorMemoryAllocation);
    size_t mapped;
    if ((*p = new_memory(n, &mapped)) == nullptr) return sim_err(cudaErrorMemoryAllocation);
    static const bool allowed = getenv("SIM_UNWRITTEN") != nullptr;
    char             *written = kind == 1 && sim_ptx_on() && !allowed ? (char *)calloc(n, 1) : nullptr;
    allocs()[(char *)*p]      = {(char *)*p, n, kind, written, false, mapped};
    race_forget(*p, n, kind == 2);
    if (kind == 1) used += n;
    sim_st.live_allocs++;
    sim_st.allocs++;
    return cudaSuccess;
}
static void release(const SimAlloc *a) {
    char        *p      = a->p;
    const size_t mapped = a->mapped;
    race_forget(p, a->n, false);
    if (a->kind == 1) used -= a->n;
    ::free(a->written);
    allocs().erase(p);
    hit = nullptr;
    if (mapped != 0)
        munmap(p, mapped);
    else
        free(p);
    sim_st.live_allocs--;
}
// Runs all queued work first, since it may use the memory.
static cudaError_t dealloc(const char *call, void *p, int kind) {
    if (!p) return sim_status();
    const SimAlloc *a = alloc_exact(p);
    if (!a || a->kind != kind) return sim_err(cudaErrorInvalidValue, "free of a pointer that was not allocated so");
    sim_drain_all();
    sim_must_end(nullptr, call);
    release(a);
    return sim_status();
}
void sim_free_all(void) {
    while (!allocs().empty()) release(&allocs().begin()->second);
}
void sim_memory_info(size_t *free, size_t *total) {
    *total = limit != 0 ? limit : (size_t)1 << 40;
    *free  = used < *total ? *total - used : 0;
}
// Whether n bytes from p are inside one allocation; memory that the runtime does not know is the host's, and
// acceptable unless device memory is needed.
bool sim_range_ok(const void *p, size_t n, bool need_dev) {
    const SimAlloc *a = sim_alloc_of(p);
    if (!a) return !need_dev;
    return (char *)p + n <= a->p + a->n && (!need_dev || a->kind == 1);
}

cudaError_t sim_check_copy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    bool dd = k == cudaMemcpyHostToDevice || k == cudaMemcpyDeviceToDevice,
         sd = k == cudaMemcpyDeviceToHost || k == cudaMemcpyDeviceToDevice;
    if (!sim_range_ok(d, n, dd) || !sim_range_ok(s, n, sd))
        return sim_err(cudaErrorInvalidValue, "memcpy range or direction");
    return cudaSuccess;
}

// The legacy stream would wait for a capturing stream, which cannot be recorded.
static cudaError_t no_implicit_capture(cudaStream_t s) {
    if (s != &sim_null_stream) return cudaSuccess;
    return sim_no_capture("work on the legacy stream while another stream captures", cudaErrorStreamCaptureImplicit);
}

extern "C" {
void sim_device_memory(size_t bytes) { limit = bytes; }

cudaError_t cudaMalloc(void **p, size_t n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return alloc(p, n, 1);
}
cudaError_t cudaFree(void *p) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaFree")) return e;
    return call.result(dealloc(__func__, p, 1));
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
        return sim_err(cudaErrorInvalidValue, "flags of cudaHostAlloc");
    return alloc(p, n, 2);
}
cudaError_t cudaMallocHost(void **p, size_t n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return alloc(p, n, 2);
}
cudaError_t cudaFreeHost(void *p) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaFreeHost")) return e;
    return call.result(dealloc(__func__, p, 2));
}
// One address space: the device sees pinned memory at the host's address.
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaHostGetDevicePointer")) return e;
    const SimAlloc *a = sim_alloc_of(host);
    if (!a || a->kind != 2 || flags != 0) return sim_err(cudaErrorInvalidValue, "no pinned memory of the host");
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind k, cudaStream_t str) {
    SIM_CALL(SIM_NEEDS_DEVICE, str);
    str = sim_stream(str);
    if (auto e = sim_check_copy(d, s, n, k)) {
        str->cap_bad |= str->cap;
        return e;
    }
    if (auto e = no_implicit_capture(str)) return e;
    if (str->cap) {
        auto x  = sim_cap_add(str, cudaGraphNodeTypeMemcpy);
        x->dst  = d;
        x->src  = s;
        x->n    = n;
        x->kind = k;
        return cudaSuccess;
    }
    sim_enqueue(str, [=](bool) {
        sim_do_copy(d, s, n, k);
        return true;
    });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t str) {
    SIM_CALL(SIM_NEEDS_DEVICE, str);
    str = sim_stream(str);
    if (!sim_range_ok(d, n, true)) {
        str->cap_bad |= str->cap;
        return sim_err(cudaErrorInvalidValue, "memset range");
    }
    if (auto e = no_implicit_capture(str)) return e;
    if (str->cap) {
        auto x = sim_cap_add(str, cudaGraphNodeTypeMemset);
        x->dst = d;
        x->val = v;
        x->n   = n;
        return cudaSuccess;
    }
    sim_enqueue(str, [=](bool) {
        sim_do_set(d, v, n);
        return true;
    });
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaMemcpy")) return e;
    if (auto e = sim_check_copy(d, s, n, k)) return e;
    sim_drain_all();
    sim_do_copy(d, s, n, k);
    return sim_status();
}
cudaError_t cudaMemset(void *d, int v, size_t n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaMemset")) return e;
    if (!sim_range_ok(d, n, true)) return sim_err(cudaErrorInvalidValue, "memset range");
    sim_drain_all();
    sim_do_set(d, v, n);
    return sim_status();
}
cudaError_t cudaMemcpyToSymbol(const void *sym, const void *s, size_t n, size_t off, cudaMemcpyKind k) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaMemcpyToSymbol")) return e;
    if (auto e = sim_drain_all()) return e;
    memcpy((char *)sym + off, s, n);
    sim_count_copy(sym, s, n, k);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    sim_memory_info(free, total);
    return cudaSuccess;
}
}
