// sim_fiber.cpp - stacks of the CUDA threads, and the switch between them (3 to 12 ns).
//
// All stacks lie in one reserved mapping, touched only as far as they are used:
//
//     arena:  | guard 4096 | stack of fiber 0 | guard | stack of fiber 1 | guard | ...
//
// A fiber lives for ever: it runs one CUDA thread after the other (sim_fiber_main). A switch saves the callee-saved
// registers on the stack that is left, keeps that stack pointer in Fiber.sp, and pops those of the other stack. A new
// fiber therefore starts with a stack that looks as if it had been left just before entering sim_fiber_main:
//
//     x86-64, from the top down:   0 | sim_fiber_main | rbp rbx r12 r13 r14 r15 (all 0)    <- sp; ret jumps
//     AArch64, 160 bytes from sp:  x19 ... x29 | x30 = sim_fiber_main (at 88) | d8 ... d15   ret jumps to x30
//
// Define SIM_UCONTEXT for other processors: swapcontext, slower by a system call.
#include "sim/device/sim_internal.h"
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

Fiber        *sim_f;
unsigned long sim_switches, sim_threads_run, sim_collectives;

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

// Only the first stacks have a guard page that faults. Each one is a mapping of the process, and Linux allows
// about 65000 of them.
enum { MAXFIB = 1 << 16, GUARDED = 2048 };
static size_t                stack_bytes = 0;
static char                 *arena;
static std::vector<Fiber *> &pool = *new std::vector<Fiber *>; // never destroyed
const char                  *sim_stk_lo, *sim_stk_hi;
static void                 *sched_sp; // the scheduler's stack pointer while a fiber runs
#ifdef SIM_ASAN
static void           *sched_fake;
static __thread void  *host_bottom; // of a host thread's own stack
static __thread size_t host_size;
static const void     *sched_bottom;
static size_t          sched_size;
#endif

// blockIdx is set by sim_swap_in: fibers that switch to each other are lanes of one warp.
static inline void set_current(Fiber *f) {
    sim_switches++;
    sim_f     = f;
    threadIdx = f->tid;
}
// The address sanitizer must know the bounds of each stack it is switched to, the host thread's own included.
void sim_fiber_host(void) {
#ifdef SIM_ASAN
    if (host_bottom == nullptr) {
        pthread_attr_t a;
        if (pthread_getattr_np(pthread_self(), &a) != 0) abort();
        pthread_attr_getstack(&a, &host_bottom, &host_size);
        pthread_attr_destroy(&a);
    }
    sched_bottom = host_bottom;
    sched_size   = host_size;
#endif
}
void sim_swap_in(Fiber *f) { // scheduler -> fiber
    set_current(f);
    blockIdx = f->b->bid;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&sched_fake, f->stk, stack_bytes);
#endif
    ctx_swap(&sched_sp, f->sp);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(sched_fake, nullptr, nullptr);
#endif
    sim_f = nullptr;
}
void sim_swap_to(Fiber *me, Fiber *f) { // fiber -> fiber, or -> scheduler if f is null
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&me->fake, f ? f->stk : sched_bottom, f ? stack_bytes : sched_size);
#endif
    if (f) set_current(f);
    ctx_swap(&me->sp, f ? f->sp : sched_sp);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
#endif
}
int sim_pick(unsigned set) {
    if (sim_policy == SIM_FWD) return __builtin_ctz(set);
    if (sim_policy == SIM_REV) return 31 - __builtin_clz(set);
    const int from = sim_rand() & 31; // the first lane of the set from there on, around the warp
    return (__builtin_ctz(set >> from | set << (32 - from & 31)) + from) & 31;
}
// Yields. A ready lane of the same warp is next, without a detour through the scheduler; in a random schedule the
// scheduler is asked in one case of four, so that warps interleave.
void sim_next(Fiber *me) {
    Warp *w = me->w;
    if (w->ready && !(sim_policy == SIM_RANDOM && (sim_rand() & 3) == 0)) {
        int    l = sim_pick(w->ready);
        Fiber *f = w->f[l];
        w->ready &= ~(1u << l);
        if (f != me) sim_swap_to(me, f);
    } else
        sim_swap_to(me, nullptr);
}

// The kernel has returned in this thread. Collectives and barriers no longer wait for it: they may complete now.
static void thread_exit(Fiber *f) {
    Warp  *w = f->w;
    Block *b = f->b;
    sim_events++;
    if (f->cp && !f->cp->empty()) sim_report(false, "thread exits with cp.async copies that it never waited for");
    w->done |= 1u << f->lane;
    b->nlive--;
    for (unsigned m = w->waiting; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if ((w->waiting >> l & 1) && sim_warp_try(w, w->f[l]->mask)) break;
    }
    sim_bar_try(b);
    sim_grid_try();
}
extern "C" void sim_fiber_main(void) {
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    for (;;) {
        Fiber *f = sim_f;
        sim_l->k->thunk(sim_l->k->fn, sim_l->args.data());
        thread_exit(f);
        sim_next(f);
    }
}
Fiber *sim_fiber(size_t i) {
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
        // Staggered: at one offset in every slot, the frames of all fibers would share a few cache sets.
        void **sp = (void **)(f->stk + stack_bytes - n * 192 % 4096);
        *--sp     = nullptr;
        *--sp     = (void *)sim_fiber_main;
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
