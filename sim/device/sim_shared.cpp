// sim_shared.cpp - shared memory, atomics and asynchronous copies of kernels.
//
// RP_SHARED(T, name, dims) makes a static object per declaration, whose address is the key. The first thread of a
// block that reaches the declaration allocates the variable; the others find it by the key:
//
//     Block.slots:  { key, memory, bytes }, ...        Block.dyn: dynamic shared memory, allocated at launch
//
// New shared memory holds sim_fill() bytes (0xff: NaN as a float), since a kernel must not count on zeros.
#include "sim/device/sim_internal.h"
#include <cstdlib>

int sim_fill(void) {
    static int v = getenv("SIM_FILL") ? atoi(getenv("SIM_FILL")) : 0xff;
    return v;
}
// A device refuses the launch: static and dynamic memory together may not exceed 48 KiB, unless the dynamic part was
// allowed by cudaFuncSetAttribute.
static void check_size(const Block *b, const char *name) {
    size_t n = sim_l->smem;
    for (auto &s : b->slots) n += s.n;
    if (n > 48 * 1024 && (int)sim_l->smem > sim_l->k->allowed_smem)
        sim_report(true, "%s: %zu bytes of shared memory with '%s', %u of them dynamic; cudaFuncSetAttribute needed",
                   sim_l->k->name.c_str(), n, name, sim_l->smem);
}
void *sim_shared(const void *key, const char *name, size_t n, size_t align) {
    (void)name;
    Block *b = sim_f->b;
    for (auto &s : b->slots)
        if (s.key == key) return s.p;
    void *p = nullptr;
    if (posix_memalign(&p, align < 16 ? 16 : align, n)) abort();
    memset(p, sim_fill(), n);
    race_forget(p, n, false);
    b->slots.push_back({key, p, n});
    check_size(b, name);
    return p;
}
void *sim_shared_dyn(void) { return sim_f->b->dyn; }
bool  sim_is_shared(const void *p, size_t n) {
     const auto inside = [&](const void *at, size_t bytes) {
        return p >= at && (const char *)p + n <= (const char *)at + bytes;
    };
     for (auto &s : sim_f->b->slots)
        if (inside(s.p, s.n)) return true;
    return sim_f->b->dyn != nullptr && inside(sim_f->b->dyn, sim_l->smem);
}
uint64_t sim_atomic(void *p, int n, SimRmw fn, uint64_t a, uint64_t b, int order) {
    if ((uintptr_t)p % n) sim_report(false, "misaligned %d-byte atomic at %p", n, p);
    race_atomic(p, n, order, __builtin_return_address(0));
    uint64_t old = 0;
    memcpy(&old, p, n);
    uint64_t nw = fn(old, a, b);
    if (nw != old) { // progress: whoever spins on this word may go on
        sim_events++;
        memcpy(p, &nw, n);
    }
    return old;
}
void sim_fence(void) { race_fence(); }

static void (*on_wait)(const char *, void *); // of sim_on_wait
static void *on_wait_user;

extern "C" void sim_on_wait(void (*f)(const char *, void *), void *user) {
    on_wait      = f;
    on_wait_user = user;
}

void sim_waited(const char *kernel) {
    if (on_wait != nullptr) on_wait(kernel, on_wait_user);
}

void sim_pdl_wait(void) {
    const bool waits = sim_f->pdl_wait && sim_f->lin == 0 && sim_f->b->id == 0;
    sim_f->pdl_wait  = false;
    if (waits) sim_waited(sim_l->k->name.c_str());
}

// A device ignores addresses that it does not have, so a wrong prefetch shows here only.
void sim_prefetch(const void *p, int bytes, const char *file, int line) {
    const char *from = (const char *)((uintptr_t)p / 16 * 16), *end = (const char *)(((uintptr_t)p + bytes) / 16 * 16);
    const SimAlloc *a = sim_alloc_of(from);
    if (bytes < 0 || a == nullptr || end > a->p + a->n)
        sim_report(true, "a prefetch of %d bytes that are not within device memory, at %s:%d", bytes, file, line);
    sim_st.prefetched_bytes += end > from ? (unsigned long)(end - from) : 0;
}

// A copy is in flight from its issue to the wait that covers it, and its target is garbage meanwhile. The bytes
// land at that wait, so a missing wait and a source that is overwritten too early show. In the reversed schedule
// they land at the issue too, so a target that is still being read shows.
void sim_cp_async(void *d, const void *s, int n, const char *file, int line) {
    if ((uintptr_t)d % n || (uintptr_t)s % n) sim_report(false, "misaligned cp.async at %s:%d", file, line);
    if (!sim_is_shared(d, (size_t)n))
        sim_report(true, "cp.async writes what is not shared memory, at %s:%d", file, line);
    Fiber *f = sim_f;
    if (!f->cp) {
        f->cp  = new std::vector<CpAsync>;
        f->cpg = new std::vector<size_t>;
    }
    race_touch(s, n, false);
    race_async(d, n);
    memset(d, sim_fill(), n);
    if (sim_policy == SIM_REV) memcpy(d, s, n);
    f->cp->push_back({d, s, n});
}
// Commit groups: cpg[i] is the number of copies issued before commit i. sim_cp_wait(keep) finishes all groups but the
// last `keep`.
void sim_cp_commit(void) {
    Fiber *f = sim_f;
    if (!f->cp) {
        f->cp  = new std::vector<CpAsync>;
        f->cpg = new std::vector<size_t>;
    }
    f->cpg->push_back(f->cp->size());
}
void sim_cp_wait(int keep) {
    Fiber *f = sim_f;
    if (!f->cp || (int)f->cpg->size() <= keep) return;
    size_t ng = f->cpg->size() - keep, upto = (*f->cpg)[ng - 1];
    for (size_t i = 0; i < upto; i++) {
        auto &c = (*f->cp)[i];
        race_touch(c.dst, c.n, true);
        memcpy(c.dst, c.src, c.n);
    }
    f->cp->erase(f->cp->begin(), f->cp->begin() + upto);
    f->cpg->erase(f->cpg->begin(), f->cpg->begin() + ng);
    for (auto &g : *f->cpg) g -= upto;
}
