// sim_memory.cpp - device and pinned memory, copies.
#include "sim_internal.h"
#include <cstdlib>
#include <map>

static std::map<char *, SimAlloc> &allocs() {
    static std::map<char *, SimAlloc> m;
    return m;
}
static const SimAlloc *hit; // last answer; dropped on free
const SimAlloc        *sim_alloc_of(const void *p) {
           auto &m = allocs();
           if (hit && (char *)p >= hit->p && (char *)p < hit->p + hit->n) return hit;
    auto i = m.upper_bound((char *)p);
           if (i == m.begin()) return nullptr;
    --i;
           if ((char *)p >= i->second.p + i->second.n) return nullptr;
    return hit = &i->second;
}
static const SimAlloc *alloc_exact(const void *p) {
    auto i = allocs().find((char *)p);
    return i == allocs().end() ? nullptr : &i->second;
}
static cudaError_t alloc(void **p, size_t n, int kind) {
    if (sim_capturing() && kind == 1)
        return sim_err(cudaErrorStreamCaptureUnsupported, "allocation while a stream captures");
    if (!n) {
        *p = nullptr;
        return cudaSuccess;
    }
    if (posix_memalign(p, 256, n)) return sim_err(cudaErrorMemoryAllocation);
    memset(*p, 0xff, n);
    allocs()[(char *)*p] = {(char *)*p, n, kind};
    race_forget(*p, n, kind == 2);
    sim_st.live_allocs++;
    return cudaSuccess;
}
static cudaError_t dealloc(void *p) {
    if (!p) return cudaSuccess;
    if (!alloc_exact(p)) return sim_err(cudaErrorInvalidValue, "free of a pointer that was not allocated");
    sim_drain_all();
    race_forget(p, alloc_exact(p)->n, false);
    allocs().erase((char *)p);
    hit = nullptr;
    free(p);
    sim_st.live_allocs--;
    return cudaSuccess;
}
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

extern "C" {
cudaError_t cudaMalloc(void **p, size_t n) { return alloc(p, n, 1); }
cudaError_t cudaFree(void *p) {
    if (auto e = sim_no_capture("cudaFree")) return e;
    return dealloc(p);
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned) { return alloc(p, n, 2); }
cudaError_t cudaMallocHost(void **p, size_t n) { return alloc(p, n, 2); }
cudaError_t cudaFreeHost(void *p) { return dealloc(p); }
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind k, cudaStream_t str) {
    if (auto e = sim_check_copy(d, s, n, k)) return e;
    str = sim_stream(str);
    if (str->cap) {
        auto x  = sim_cap_add(str, cudaGraphNodeTypeMemcpy);
        x->dst  = d;
        x->src  = s;
        x->n    = n;
        x->kind = k;
        return cudaSuccess;
    }
    sim_enqueue(str, [=] { sim_do_copy(d, s, n); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t str) {
    if (!sim_range_ok(d, n, true)) return sim_err(cudaErrorInvalidValue, "memset range");
    str = sim_stream(str);
    if (str->cap) {
        auto x = sim_cap_add(str, cudaGraphNodeTypeMemset);
        x->dst = d;
        x->val = v;
        x->n   = n;
        return cudaSuccess;
    }
    sim_enqueue(str, [=] { sim_do_set(d, v, n); });
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    if (auto e = sim_no_capture("cudaMemcpy")) return e;
    if (auto e = sim_check_copy(d, s, n, k)) return e;
    sim_drain_all();
    sim_do_copy(d, s, n);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *d, int v, size_t n) {
    if (auto e = sim_no_capture("cudaMemset")) return e;
    if (!sim_range_ok(d, n, true)) return sim_err(cudaErrorInvalidValue, "memset range");
    sim_drain_all();
    sim_do_set(d, v, n);
    return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void *sym, const void *s, size_t n, size_t off, cudaMemcpyKind) {
    sim_drain_all();
    memcpy((char *)sym + off, s, n);
    return cudaSuccess;
}
}
