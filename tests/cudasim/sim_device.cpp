// sim_device.cpp - runs CUDA grids on the CPU: one fiber per CUDA thread, switched
// only at barriers, warp collectives and spin waits.  One OS thread.
#include "sim_internal.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

__thread uint3       threadIdx, blockIdx;
__thread dim3        blockDim, gridDim;
__thread Fiber      *sim_f;
SimLaunch           *sim_l;
int                  sim_policy, sim_reports;
uint32_t             sim_launch_id;
unsigned long        sim_switches, sim_threads_run, sim_collectives, sim_barriers;
static unsigned long events; // progress marks, for deadlock detection
static uint64_t      rng = 88172645463325252ull;
unsigned             sim_rand(void) {
                rng ^= rng << 13;
                rng ^= rng >> 7;
                rng ^= rng << 17;
                return (unsigned)(rng >> 11);
}
void sim_set_sched(int p, unsigned seed) {
    sim_policy = p;
    rng        = 88172645463325252ull ^ ((uint64_t)seed * 0x9e3779b97f4a7c15ull);
    for (int i = 0; i < 8; i++) sim_rand();
}

// ---- diagnostics -----------------------------------------------------------
const char *sim_where(void) {
    static char s[256];
    Fiber      *f = sim_f;
    if (!f) return "host";
    snprintf(s, sizeof s, "%s block (%u,%u,%u) thread (%u,%u,%u)", sim_l->k->name.c_str(), f->b->bid.x,
             f->b->bid.y, f->b->bid.z, f->tid.x, f->tid.y, f->tid.z);
    return s;
}
void sim_report(bool fatal, const char *fmt, ...) {
    static bool go_on = getenv("SIM_CONTINUE") != nullptr;
    sim_reports++;
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "cudasim: %s: ", sim_where());
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    if (fatal || !go_on) {
        fflush(stderr);
        _Exit(99);
    }
}
void sim_trap(const char *what, const char *file, int line) {
    sim_report(true, "%s at %s:%d", what, file, line);
    __builtin_unreachable();
}

// ---- kernel registry -------------------------------------------------------
static std::map<const void *, SimKernelInfo> &kernels() {
    static std::map<const void *, SimKernelInfo> m;
    return m;
}
const void *sim_register(const void *fn, const char *name, SimThunk t, const size_t *sz, int n) {
    auto &k = kernels()[fn];
    if (!k.fn) {
        k.fn    = fn;
        k.name  = name;
        k.thunk = t;
        k.sizes.assign(sz, sz + n);
    }
    return fn;
}
SimKernelInfo *sim_find_kernel(const void *fn) {
    auto i = kernels().find(fn);
    return i == kernels().end() ? nullptr : &i->second;
}

// ---- fibers ----------------------------------------------------------------
#ifdef SIM_UCONTEXT
#include <ucontext.h>
struct Ctx {
    ucontext_t u;
};
static void ctx_swap(void **from, void *to) { swapcontext(&((Ctx *)*from)->u, &((Ctx *)to)->u); }
#elif defined(__x86_64__)
extern "C" void sim_swap(void **save, void *to);
__asm__(".text\n.globl sim_swap\n.type sim_swap,@function\nsim_swap:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size sim_swap,.-sim_swap\n");
static inline void ctx_swap(void **from, void *to) { sim_swap(from, to); }
#elif defined(__aarch64__)
extern "C" void sim_swap(void **save, void *to);
__asm__(".text\n.globl sim_swap\n.type sim_swap,%function\nsim_swap:\n"
        "sub sp,sp,#160\nstp x19,x20,[sp,#0]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp "
        "x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov "
        "x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp,#0]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp "
        "x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd "
        "sp,sp,#160\nret\n.size sim_swap,.-sim_swap\n");
static inline void ctx_swap(void **from, void *to) { sim_swap(from, to); }
#endif

enum { MAXFIB = 1 << 16, GUARDED = 2048 };
static size_t                stack_bytes = 0;
static char                 *arena;
static std::vector<Fiber *> &pool = *new std::vector<Fiber *>; // never destroyed
const char                  *sim_stk_lo, *sim_stk_hi;
static void                 *sched_sp;
#ifdef SIM_ASAN
static void       *sched_fake;
static const void *sched_bottom;
static size_t      sched_size;
#endif

static inline void set_current(Fiber *f) {
    sim_switches++;
    sim_f     = f;
    threadIdx = f->tid;
    blockIdx  = f->b->bid;
}
static void swap_in(Fiber *f) { // scheduler -> fiber
    set_current(f);
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&sched_fake, f->stk, stack_bytes);
#endif
    ctx_swap(&sched_sp, f->sp);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(sched_fake, nullptr, nullptr);
#endif
    sim_f = nullptr;
}
static void swap_to(Fiber *me, Fiber *f) { // fiber -> fiber, or -> scheduler if f is null
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&me->fake, f ? f->stk : sched_bottom, f ? stack_bytes : sched_size);
#endif
    if (f) set_current(f);
    ctx_swap(&me->sp, f ? f->sp : sched_sp);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
#endif
}
static inline int pick(unsigned set) {
    if (sim_policy == SIM_FWD) return __builtin_ctz(set);
    if (sim_policy == SIM_REV) return 31 - __builtin_clz(set);
    for (int n = sim_rand() % __builtin_popcount(set); n--;) set &= set - 1;
    return __builtin_ctz(set);
}
static inline void next(Fiber *me) { // give up the CPU; the caller has recorded why
    Warp *w = me->w;
    if (w->ready && !(sim_policy == SIM_RANDOM && (sim_rand() & 3) == 0)) {
        int    l = pick(w->ready);
        Fiber *f = w->f[l];
        w->ready &= ~(1u << l);
        if (f != me) swap_to(me, f);
    } else
        swap_to(me, nullptr);
}

static bool warp_try(Warp *w, unsigned mask);
static void bar_try(Block *b);
static void grid_try(void);
static void thread_exit(Fiber *f) {
    Warp  *w = f->w;
    Block *b = f->b;
    events++;
    if (f->cp && !f->cp->empty())
        sim_report(false, "thread exits with cp.async copies that were never waited for");
    w->done |= 1u << f->lane;
    b->nlive--;
    for (unsigned m = w->waiting; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if ((w->waiting >> l & 1) && warp_try(w, w->f[l]->mask)) break;
    }
    bar_try(b);
    grid_try();
}
extern "C" void sim_fiber_main(void) {
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(nullptr, sched_bottom ? nullptr : &sched_bottom,
                                    sched_bottom ? nullptr : &sched_size);
#endif
    for (;;) {
        Fiber *f = sim_f;
        sim_l->k->thunk(sim_l->k->fn, sim_l->args.data());
        thread_exit(f);
        next(f);
    }
}
static Fiber *fiber(size_t i) {
    if (!arena) {
        const char *e = getenv("SIM_STACK_KB");
#ifdef SIM_ASAN
        stack_bytes = (size_t)(e ? atoi(e) : 256) * 1024;
#else
        stack_bytes = (size_t)(e ? atoi(e) : 64) * 1024;
#endif
        arena = (char *)mmap(nullptr, MAXFIB * (stack_bytes + 4096), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) {
            perror("cudasim: mmap stacks");
            abort();
        }
        sim_stk_lo = arena;
        sim_stk_hi = arena + MAXFIB * (stack_bytes + 4096);
    }
    while (pool.size() <= i) {
        size_t n = pool.size();
        if (n >= MAXFIB) {
            fprintf(stderr, "cudasim: too many resident threads\n");
            abort();
        }
        char *base = arena + n * (stack_bytes + 4096);
        if (n < GUARDED) mprotect(base, 4096, PROT_NONE);
        Fiber *f = new Fiber();
        f->stk   = base + 4096;
#ifdef SIM_UCONTEXT
        Ctx *c = new Ctx;
        getcontext(&c->u);
        c->u.uc_stack.ss_sp   = f->stk;
        c->u.uc_stack.ss_size = stack_bytes;
        c->u.uc_link          = nullptr;
        makecontext(&c->u, sim_fiber_main, 0);
        f->sp = c;
        if (!sched_sp) sched_sp = new Ctx;
#elif defined(__x86_64__)
        void **sp   = (void **)(f->stk + stack_bytes - n * 192 % 4096);
        *--sp       = nullptr;
        *--sp       = (void *)sim_fiber_main;
        for (int r = 0; r < 6; r++) *--sp = nullptr;
        f->sp = sp;
#else
        char *sp = f->stk + stack_bytes - 160;
        memset(sp, 0, 160);
        ((void **)sp)[11] = (void *)sim_fiber_main;
        f->sp             = sp;
#endif
        pool.push_back(f);
    }
    return pool[i];
}

// ---- warp collectives ------------------------------------------------------
static const char *opname(SimOp o) {
    static const char *n[] = {
        "__syncwarp",        "__ballot_sync",     "__any_sync",        "__all_sync",
        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
        "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
        "__reduce_or_sync",  "__reduce_xor_sync", "__match_any_sync",  "mma",
        "warp sum",          "warp max"};
    return n[o];
}
struct MmaArgs {
    float          *d;
    const uint32_t *a, *b;
    const float    *c;
};
static void mma_compute(Warp *w) { // PTX m16n8k16 fragment layout
    static float A[16][16], B[16][8];
    auto         bf = [](uint32_t v, int hi) { return __uint_as_float((hi ? v >> 16 : v & 0xffff) << 16); };
    for (int l = 0; l < 32; l++) {
        auto *m = (MmaArgs *)w->f[l]->val;
        int   g = l >> 2, t = l & 3;
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 4; i++) A[g + 8 * (i & 1)][t * 2 + h + 8 * (i >> 1)] = bf(m->a[i], h);
            for (int i = 0; i < 2; i++) B[t * 2 + h + 8 * i][g] = bf(m->b[i], h);
        }
    }
    for (int l = 0; l < 32; l++) {
        auto *m = (MmaArgs *)w->f[l]->val;
        int   g = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++) {
            int    r = g + 8 * (i >> 1), c = t * 2 + (i & 1);
            double s = 0;
            for (int k = 0; k < 16; k++) s += (double)A[r][k] * B[k][c];
            m->d[i] = (float)(s + m->c[i]);
        }
    }
}
static bool warp_try(Warp *w, unsigned mask) { // complete the collective on mask if all have arrived
    unsigned need = mask & w->exist & ~w->done;
    if ((w->waiting & need) != need) return false;
    static const bool lax = getenv("SIM_LAX_EXIT") != nullptr;
    Fiber            *f0  = w->f[__builtin_ctz(need)], *p[32];
    int               n   = 0;
    for (unsigned m = need; m; m &= m - 1) {
        Fiber *f = p[n++] = w->f[__builtin_ctz(m)];
        if (f->op != f0->op || f->mask != mask || f->width != f0->width)
            sim_report(true,
                       "lanes of one collective disagree: lane %u %s mask %08x (%s:%d), lane %u %s mask %08x "
                       "(%s:%d)",
                       f0->lane, opname(f0->op), f0->mask, f0->file, f0->line, f->lane, opname(f->op),
                       f->mask, f->file, f->line);
        f->waiting = 0;
    }
    if (!lax && (mask & w->exist & w->done))
        sim_report(true, "%s mask %08x names lanes %08x that have returned, at %s:%d", opname(f0->op), mask,
                   mask & w->done, f0->file, f0->line);
    uint64_t acc  = p[0]->val;
    auto     fold = [&](auto op) {
        for (int i = 1; i < n; i++) acc = op(acc, p[i]->val);
    };
    auto sx   = [&](uint64_t a, uint64_t b) { return f0->arg ? (int)a < (int)b : (unsigned)a < (unsigned)b; };
    auto move = [&](auto src) { // shuffles: src(lane, segment start, segment end)
        for (int i = 0; i < n; i++) {
            Fiber *f = p[i];
            int    l = (int)f->lane, s = src(f, l, l & ~(f->width - 1), l | (f->width - 1));
            if (!(need >> s & 1))
                sim_report(true,
                           "%s reads lane %d, which does not take part (mask %08x, exited %08x) at %s:%d",
                           opname(f->op), s, mask, w->done, f->file, f->line);
            f->res = w->f[s]->val;
        }
    };
    bool same = true; // every lane gets acc
    switch (f0->op) {
    case SIM_SYNC:
        race_warp_sync(w, need);
        break;
    case SIM_BALLOT:
        acc = 0;
        for (int i = 0; i < n; i++) acc |= (uint64_t)(p[i]->val != 0) << p[i]->lane;
        break;
    case SIM_ANY:
    case SIM_ROR:
        fold([](uint64_t a, uint64_t b) { return a | b; });
        break;
    case SIM_ALL:
    case SIM_RAND:
        fold([](uint64_t a, uint64_t b) { return a & b; });
        break;
    case SIM_RXOR:
        fold([](uint64_t a, uint64_t b) { return a ^ b; });
        break;
    case SIM_RADD:
        fold([](uint64_t a, uint64_t b) { return a + b; });
        break;
    case SIM_RMIN:
        fold([&](uint64_t a, uint64_t b) { return sx(b, a) ? b : a; });
        break;
    case SIM_RMAX:
        fold([&](uint64_t a, uint64_t b) { return sx(a, b) ? b : a; });
        break;
    case SIM_IDX:
        move([](Fiber *f, int, int lo, int) { return lo | (f->arg & (f->width - 1)); });
        same = false;
        break;
    case SIM_UP:
        move([](Fiber *f, int l, int lo, int) { return l - f->arg < lo ? l : l - f->arg; });
        same = false;
        break;
    case SIM_DOWN:
        move([](Fiber *f, int l, int, int hi) { return l + f->arg > hi ? l : l + f->arg; });
        same = false;
        break;
    case SIM_XOR:
        move([](Fiber *f, int l, int, int hi) { return (l ^ f->arg) > hi ? l : l ^ f->arg; });
        same = false;
        break;
    case SIM_MATCH:
        for (int i = 0; i < n; i++) {
            p[i]->res = 0;
            for (int k = 0; k < n; k++)
                if (p[k]->val == p[i]->val) p[i]->res |= 1ull << p[k]->lane;
        }
        same = false;
        break;
    case SIM_FSUM:
    case SIM_FMAX: { // same butterfly, same rounding as five xor shuffles
        float v[32], t[32];
        if (n != 32) sim_report(true, "fused reduction needs all 32 lanes");
        for (int i = 0; i < 32; i++) v[i] = sim_unbits<float>(p[i]->val);
        for (int o = 16; o; o >>= 1) {
            for (int i = 0; i < 32; i++) t[i] = f0->op == SIM_FSUM ? v[i] + v[i ^ o] : fmaxf(v[i], v[i ^ o]);
            memcpy(v, t, sizeof v);
        }
        for (int i = 0; i < 32; i++) p[i]->res = sim_bits(v[i]);
        same = false;
        break;
    }
    case SIM_MMA:
        if (n != 32) sim_report(true, "mma needs all 32 lanes");
        mma_compute(w);
        break;
    }
    if (same)
        for (int i = 0; i < n; i++) p[i]->res = acc;
    w->waiting &= ~need;
    w->ready |= need;
    events++;
    sim_collectives++;
    return true;
}
uint64_t sim_warp(SimOp op, unsigned mask, uint64_t v, int arg, int width, const char *file, int line) {
    Fiber *f = sim_f;
    Warp  *w = f->w;
    f->op    = op;
    f->mask  = mask;
    f->val   = v;
    f->arg   = arg;
    f->width = width;
    f->file  = file;
    f->line  = line;
    if (!(mask >> f->lane & 1))
        sim_report(true, "%s called by lane %u, which is not in its mask %08x, at %s:%d", opname(op), f->lane,
                   mask, file, line);
    if (width & (width - 1) || width < 1 || width > 32)
        sim_report(true, "%s width %d at %s:%d", opname(op), width, file, line);
    w->waiting |= 1u << f->lane;
    f->waiting = 1;
    warp_try(w, mask);
    next(f);
    return f->res;
}
void sim_mma_bf16_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
                        const char *file, int line) {
    MmaArgs m = {d, a, b, c};
    sim_warp(SIM_MMA, 0xffffffffu, (uint64_t)&m, 0, 32, file, line);
}

// ---- block and grid barriers -----------------------------------------------
static std::vector<Block *> resident;
static unsigned long        grid_arrived;
static void                 release(Block *b, int kind) {
                    for (auto &w : b->w)
        for (unsigned m = w.exist & ~w.done; m; m &= m - 1) {
                            Fiber *f = w.f[__builtin_ctz(m)];
                            if (f->waiting == kind) {
                                f->waiting = 0;
                                w.ready |= m & -m;
            }
        }
}
static void bar_try(Block *b) {
    if (!b->nbar || b->nbar != b->nlive) return;
    b->bres = b->barop == 1 || b->barop == 3 ? b->bacc : b->bacc == (int)b->nbar;
    if (b->barop == 3) b->bres = b->bacc != 0;
    b->nbar = 0;
    b->bacc = 0;
    events++;
    sim_barriers++;
    race_bar(b);
    release(b, 2);
}
int sim_bar(int op, int pred, const char *file, int line) {
    Fiber *f = sim_f;
    Block *b = f->b;
    f->file  = file;
    f->line  = line;
    if (b->nbar == 0) {
        b->barop = op;
        b->bfile = file;
        b->bline = line;
    } else if (b->barop != op || b->bline != line || b->bfile != file)
        sim_report(true, "divergent barrier: this thread is at %s:%d, others wait at %s:%d", file, line,
                   b->bfile, b->bline);
    b->nbar++;
    b->bacc += pred != 0;
    f->waiting = 2;
    bar_try(b);
    next(f);
    return b->bres;
}
static void grid_try(void) {
    if (!grid_arrived) return;
    unsigned long live = 0;
    for (auto *b : resident) live += b->nlive;
    if (grid_arrived != live) return;
    grid_arrived = 0;
    events++;
    race_grid();
    for (auto *b : resident) release(b, 3);
}
void sim_grid_sync(const char *file, int line) {
    Fiber *f = sim_f;
    f->file  = file;
    f->line  = line;
    if (!sim_l->coop)
        sim_report(true, "grid sync in a launch without the cooperative attribute, at %s:%d", file, line);
    f->waiting = 3;
    grid_arrived++;
    grid_try();
    next(f);
}
void sim_spin(const char *file, int line) {
    Fiber *f   = sim_f;
    f->file    = file;
    f->line    = line;
    f->waiting = 4;
    swap_to(f, nullptr);
}

// ---- shared memory, atomics, async copies ----------------------------------
static int fill(void) {
    static int v = getenv("SIM_FILL") ? atoi(getenv("SIM_FILL")) : 0xff;
    return v;
}
void *sim_shared(const void *key, const char *name, size_t n, size_t align) {
    (void)name;
    Block *b = sim_f->b;
    for (auto &s : b->slots)
        if (s.key == key) return s.p;
    void *p = nullptr;
    if (posix_memalign(&p, align < 16 ? 16 : align, n)) abort();
    memset(p, fill(), n);
    race_forget(p, n, false);
    b->slots.push_back({key, p, n});
    return p;
}
void    *sim_shared_dyn(void) { return sim_f->b->dyn; }
uint64_t sim_atomic(void *p, int n, SimRmw fn, uint64_t a, uint64_t b, int order) {
    if ((uintptr_t)p % n) sim_report(false, "misaligned %d-byte atomic at %p", n, p);
    race_atomic(p, n, order, __builtin_return_address(0));
    uint64_t old = 0;
    memcpy(&old, p, n);
    uint64_t nw = fn(old, a, b);
    if (nw != old) {
        events++;
        memcpy(p, &nw, n);
    }
    return old;
}
void sim_fence(void) { race_fence(); }
void sim_pdl_wait(void) { sim_f->pdl_wait = false; }
// A copy is in flight from issue to wait: its target is garbage meanwhile.  It lands at the
// latest moment (the wait that covers it), or at issue under SIM_REV, so both kinds of bug show.
void sim_cp_async(void *d, const void *s, int n, const char *file, int line) {
    if ((uintptr_t)d % n || (uintptr_t)s % n) sim_report(false, "misaligned cp.async at %s:%d", file, line);
    Fiber *f = sim_f;
    if (!f->cp) {
        f->cp  = new std::vector<CpAsync>;
        f->cpg = new std::vector<size_t>;
    }
    race_touch(s, n, false);
    race_async(d, n);
    memset(d, fill(), n);
    if (sim_policy == SIM_REV) memcpy(d, s, n);
    f->cp->push_back({d, s, n});
}
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

// ---- scheduler -------------------------------------------------------------
static void deadlock(void) {
    sim_report(false, "deadlock in %s; threads wait at:", sim_l->k->name.c_str());
    static const char *kind[] = {"running", "warp collective", "__syncthreads", "grid sync", "spin wait"};
    std::map<std::string, std::pair<int, std::string>> sum;
    for (auto *b : resident)
        for (auto &w : b->w)
            for (unsigned m = w.exist & ~w.done; m; m &= m - 1) {
                Fiber *f = w.f[__builtin_ctz(m)];
                char   k[300], e[100];
                snprintf(k, sizeof k, "%s%s%s %s:%d", kind[f->waiting], f->waiting == 1 ? " " : "",
                         f->waiting == 1 ? opname(f->op) : "", f->file ? f->file : "?", f->line);
                snprintf(e, sizeof e, "e.g. block %u thread %u", b->id, f->lin);
                auto &s = sum[k];
                if (!s.first++) s.second = e;
            }
    for (auto &s : sum)
        fprintf(stderr, "cudasim:   %d thread(s) at %s (%s)\n", s.second.first, s.first.c_str(),
                s.second.second.c_str());
    _Exit(99);
}
static void block_init(Block *b, uint32_t id, size_t fib0,
                       bool fresh) { // fresh: first block of a launch in this slot
    SimLaunch &l = *sim_l;
    b->id        = id;
    b->nthr = b->nlive = l.block.x * l.block.y * l.block.z;
    b->nbar            = 0;
    b->bacc            = 0;
    b->epoch           = 0;
    for (auto &s : b->slots) {
        memset(s.p, fill(), s.n);
        race_forget(s.p, s.n, false);
    }
    if (l.smem) {
        if (!b->dyn && posix_memalign(&b->dyn, 128, l.smem)) abort();
        memset(b->dyn, fill(), l.smem);
        race_forget(b->dyn, l.smem, false);
    }
    b->bid = {id % l.grid.x, id / l.grid.x % l.grid.y, id / l.grid.x / l.grid.y};
    if (fresh) {
        b->nwarp = (b->nthr + 31) / 32;
        b->w.assign(b->nwarp, Warp{});
        for (unsigned t = 0; t < b->nthr; t++) {
            Fiber *f     = fiber(fib0 + t);
            Warp  *w     = &b->w[t / 32];
            f->tid       = {t % l.block.x, t / l.block.x % l.block.y, t / l.block.x / l.block.y};
            f->w         = w;
            f->b         = b;
            f->lane      = t % 32;
            f->lin       = t;
            w->f[t % 32] = f;
            w->exist |= 1u << t % 32;
        }
    }
    for (auto &w : b->w) {
        w.done = w.waiting = 0;
        w.ready            = w.exist;
        for (unsigned m = w.exist; m; m &= m - 1) {
            Fiber *f    = w.f[__builtin_ctz(m)];
            f->waiting  = 0;
            f->file     = nullptr;
            f->pdl_wait = l.pdl;
            if (f->cp) {
                f->cp->clear();
                f->cpg->clear();
            }
        }
    }
    sim_threads_run += b->nthr;
    race_block_start(b);
}
static void block_free(Block *b) {
    for (auto &s : b->slots) free(s.p);
    b->slots.clear();
    free(b->dyn);
    b->dyn = nullptr;
}
static void run_resident(void) {
    unsigned long idle = 0, ev = events;
    size_t        nb = resident.size();
    for (;;) {
        bool any = false, alive = false, spin = false;
        for (size_t i = 0; i < nb; i++) {
            Block   *b  = resident[sim_policy == SIM_REV      ? nb - 1 - i
                                   : sim_policy == SIM_RANDOM ? sim_rand() % nb
                                                              : i];
            unsigned nw = b->nwarp, w0 = sim_policy == SIM_RANDOM ? sim_rand() % nw : 0;
            for (unsigned k = 0; k < nw; k++) {
                Warp *w = &b->w[sim_policy == SIM_REV ? nw - 1 - k : (w0 + k) % nw];
                while (w->ready) {
                    any   = true;
                    int l = pick(w->ready);
                    w->ready &= ~(1u << l);
                    swap_in(w->f[l]);
                    if (sim_policy == SIM_RANDOM) break;
                }
            }
        }
        if (any) {
            if (events != ev) {
                ev   = events;
                idle = 0;
            }
        }
        for (auto *b : resident) alive |= b->nlive > 0;
        if (!alive) return;
        bool left = false;
        for (auto *b : resident)
            for (auto &w : b->w) left |= w.ready != 0;
        if (left) continue;
        for (auto *b : resident)
            for (auto &w : b->w)
                for (unsigned m = w.exist & ~w.done; m; m &= m - 1) {
                    Fiber *f = w.f[__builtin_ctz(m)];
                    if (f->waiting == 4) {
                        f->waiting = 0;
                        w.ready |= m & -m;
                        spin = true;
                    }
                }
        if (!spin || ++idle > 10000) deadlock();
    }
}
void sim_run_kernel(SimLaunch &l) {
    sim_l    = &l;
    blockDim = l.block;
    gridDim  = l.grid;
    sim_launch_id++;
    race_launch();
    uint32_t nb = l.grid.x * l.grid.y * l.grid.z, nt = l.block.x * l.block.y * l.block.z;
    if (l.coop) {
        std::vector<Block> bs(nb);
        resident.clear();
        for (uint32_t i = 0; i < nb; i++) {
            bs[i].gid = 0;
            block_init(&bs[i], i, (size_t)i * nt, true);
            resident.push_back(&bs[i]);
        }
        run_resident();
        for (auto &b : bs) block_free(&b);
    } else {
        static Block b;
        b.gid = 0;
        resident.assign(1, &b);
        std::vector<uint32_t> order;
        if (sim_policy == SIM_RANDOM) {
            order.resize(nb);
            for (uint32_t i = 0; i < nb; i++) order[i] = i;
            for (uint32_t i = nb; i > 1; i--) std::swap(order[i - 1], order[sim_rand() % i]);
        }
        for (uint32_t i = 0; i < nb; i++) {
            block_init(&b,
                       sim_policy == SIM_REV      ? nb - 1 - i
                       : sim_policy == SIM_RANDOM ? order[i]
                                                  : i,
                       0, i == 0);
            run_resident();
        }
        block_free(&b);
    }
    sim_l = nullptr;
}
extern "C" unsigned long sim_switches_c(void) { return sim_switches; }
extern "C" unsigned long sim_threads_c(void) { return sim_threads_run; }
