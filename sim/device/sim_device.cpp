// sim_device.cpp - runs a grid on the CPU: one fiber per CUDA thread, one grid at a time, in the calling host thread.
//
// Fibers switch only at barriers, warp collectives and spin waits, so a run is deterministic for a given schedule:
//
//     sim_run_kernel          blocks one after the other (forward, reversed, shuffled), each to its end;
//       run_resident          a cooperative launch: all blocks at once
//         every warp          runs its ready lanes until each waits or has returned
//         nothing ready?      wake the threads that spin; if there are none, or nothing changes: deadlock
//
// A block that waits for another block outside a cooperative launch therefore ends as a deadlock. That is intended:
// CUDA does not promise that both are resident.
#include "sim/device/sim_internal.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>

uint3           threadIdx, blockIdx;
dim3            blockDim, gridDim;
__thread bool   sim_here;
SimLaunch      *sim_l;
int             sim_policy, sim_reports;
uint32_t        sim_launch_id;
unsigned long   sim_events; // counts progress (barriers, collectives, atomics, exits), to detect deadlocks
static uint64_t rng = 88172645463325252ull;

unsigned sim_rand(void) {
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
    snprintf(s, sizeof s, "%s block (%u,%u,%u) thread (%u,%u,%u)", sim_l->k->name.c_str(), f->b->bid.x, f->b->bid.y,
             f->b->bid.z, f->tid.x, f->tid.y, f->tid.z);
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
    std::lock_guard<std::recursive_mutex> lock(sim_mutex());
    auto                                 &k = kernels()[fn];
    if (!k.fn) {
        k.fn    = fn;
        k.name  = name;
        k.thunk = t;
        k.sizes.assign(sz, sz + n);
    }
    return fn;
}
void           sim_add_kernel(const SimKernelInfo &k) { kernels()[k.fn] = k; }
void           sim_remove_kernel(const void *fn) { kernels().erase(fn); }
SimKernelInfo *sim_find_kernel(const void *fn) {
    auto i = kernels().find(fn);
    return i == kernels().end() ? nullptr : &i->second;
}

// ---- scheduler ----
// Reports how many threads wait at each place, and ends the process.
void deadlock(void) {
    sim_report(false, "deadlock in %s; threads wait at:", sim_l->k->name.c_str());
    static const char *kind[] = {"running", "warp collective", "__syncthreads", "grid sync", "spin wait"};
    std::map<std::string, std::pair<int, std::string>> sum;
    for (auto *b : sim_resident)
        for (auto &w : b->w)
            for (unsigned m = w.exist & ~w.done; m; m &= m - 1) {
                Fiber *f = w.f[__builtin_ctz(m)];
                char   k[300], e[100];
                snprintf(k, sizeof k, "%s%s%s %s:%d", kind[f->waiting], f->waiting == 1 ? " " : "",
                         f->waiting == 1 ? sim_opname(f->op) : "", f->file ? f->file : "?", f->line);
                snprintf(e, sizeof e, "e.g. block %u thread %u", b->id, f->lin);
                auto &s = sum[k];
                if (!s.first++) s.second = e;
            }
    for (auto &s : sum)
        fprintf(stderr, "cudasim:   %d thread(s) at %s (%s)\n", s.second.first, s.first.c_str(),
                s.second.second.c_str());
    _Exit(99);
}
// Prepares block `id` with the fibers from fib0 on. fresh: the first block of a launch in b; the next ones keep its
// threads and warps. Shared memory is filled with sim_fill() bytes for every block.
static void block_init(Block *b, uint32_t id, size_t fib0, bool fresh) {
    SimLaunch &l = *sim_l;
    b->id        = id;
    b->nthr = b->nlive = l.block.x * l.block.y * l.block.z;
    b->nbar            = 0;
    b->bacc            = 0;
    b->epoch           = 0;
    for (auto &s : b->slots) {
        memset(s.p, sim_fill(), s.n);
        race_forget(s.p, s.n, false);
    }
    if (l.smem) {
        if (!b->dyn && posix_memalign(&b->dyn, 128, l.smem)) abort();
        memset(b->dyn, sim_fill(), l.smem);
        race_forget(b->dyn, l.smem, false);
    }
    b->bid = {id % l.grid.x, id / l.grid.x % l.grid.y, id / l.grid.x / l.grid.y};
    if (fresh) {
        b->nwarp = (b->nthr + 31) / 32;
        b->w.assign(b->nwarp, Warp{});
        for (unsigned t = 0; t < b->nthr; t++) {
            Fiber *f     = sim_fiber(fib0 + t);
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
// Each block of a PDL launch must wait for the earlier kernels, even if it has nothing to do: the next kernel
// waits for this one only and counts on all the others having ended.
static void check_waited(const SimLaunch &l, const Block *b) {
    bool waited = !l.pdl;
    for (auto &w : b->w)
        for (unsigned m = w.exist; m && !waited; m &= m - 1) waited = !w.f[__builtin_ctz(m)]->pdl_wait;
    if (!waited)
        sim_report(true, "%s block %u: a PDL launch that never waited for the earlier kernels", l.k->name.c_str(),
                   b->id);
}
static void block_free(Block *b) {
    for (auto &s : b->slots) free(s.p);
    b->slots.clear();
    free(b->dyn);
    b->dyn = nullptr;
}
// Runs the resident blocks to their end. A round lets every warp run until none of its lanes is ready. Spinning
// threads are woken only when nothing else is ready; 10000 such rounds without an event are a deadlock.
static void run_resident(void) {
    unsigned long idle = 0, ev = sim_events;
    size_t        nb = sim_resident.size();
    for (;;) {
        bool any = false, alive = false, spin = false;
        for (size_t i = 0; i < nb; i++) {
            Block   *b  = sim_resident[sim_policy == SIM_REV      ? nb - 1 - i
                                       : sim_policy == SIM_RANDOM ? sim_rand() % nb
                                                                  : i];
            unsigned nw = b->nwarp, w0 = sim_policy == SIM_RANDOM ? sim_rand() % nw : 0;
            for (unsigned k = 0; k < nw; k++) {
                Warp *w = &b->w[sim_policy == SIM_REV ? nw - 1 - k : (w0 + k) % nw];
                while (w->ready) {
                    any   = true;
                    int l = sim_pick(w->ready);
                    w->ready &= ~(1u << l);
                    sim_swap_in(w->f[l]);
                    if (sim_policy == SIM_RANDOM) break;
                }
            }
        }
        if (any) {
            if (sim_events != ev) {
                ev   = sim_events;
                idle = 0;
            }
        }
        for (auto *b : sim_resident) alive |= b->nlive > 0;
        if (!alive) return;
        bool left = false;
        for (auto *b : sim_resident)
            for (auto &w : b->w) left |= w.ready != 0;
        if (left) continue;
        for (auto *b : sim_resident)
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
    sim_here = true;
    sim_fiber_host();
    sim_l    = &l;
    blockDim = l.block;
    gridDim  = l.grid;
    sim_launch_id++;
    race_launch();
    if (sim_run_ptx(l)) {
        sim_l    = nullptr;
        sim_here = false;
        return;
    }
    sim_bits_kernel(l.k->name, "");
    uint32_t nb = l.grid.x * l.grid.y * l.grid.z, nt = l.block.x * l.block.y * l.block.z;
    if (l.coop) {
        std::vector<Block> bs(nb);
        sim_resident.clear();
        for (uint32_t i = 0; i < nb; i++) {
            bs[i].gid = 0;
            block_init(&bs[i], i, (size_t)i * nt, true);
            sim_resident.push_back(&bs[i]);
        }
        run_resident();
        for (auto &b : bs) {
            check_waited(l, &b);
            block_free(&b);
        }
    } else {
        static Block b;
        b.gid = 0;
        sim_resident.assign(1, &b);
        std::vector<uint32_t> order;
        if (sim_policy == SIM_RANDOM) {
            order.resize(nb);
            for (uint32_t i = 0; i < nb; i++) order[i] = i;
            for (uint32_t i = nb; i > 1; i--) std::swap(order[i - 1], order[sim_rand() % i]);
        }
        for (uint32_t i = 0; i < nb; i++) {
            block_init(&b, sim_policy == SIM_REV ? nb - 1 - i : sim_policy == SIM_RANDOM ? order[i] : i, 0, i == 0);
            run_resident();
            check_waited(l, &b);
        }
        block_free(&b);
    }
    sim_l    = nullptr;
    sim_here = false;
}

static const int selected_bug = getenv("SIM_BUG") ? atoi(getenv("SIM_BUG")) : 0;
bool             sim_bug(int number) { return number == selected_bug; }
