// sim_warp.cpp - warp collectives, block and grid barriers.
//
// A collective is complete when every lane of its mask that exists and has not returned waits in it. The lane that
// arrives last computes the results of all of them:
//
//     __shfl_down_sync(0xf, v, 1, 4) by lanes 0 to 3, which arrive in the order 2 0 3 1:
//       lane 2: waiting = ..0100, yields
//       lane 0: waiting = ..0101, yields
//       lane 3: waiting = ..1101, yields
//       lane 1: waiting = ..1111 = mask: results { v1, v2, v3, v3 }, and all four become ready
//
// A shuffle works in segments of `width` lanes: lane l has the segment lo = l & ~(width-1) to hi = l | (width-1). A
// source outside the segment gives the lane its own value; a source lane that takes no part is an error.
//
// A barrier is complete when all threads of the block that have not returned wait in it (CUDA's rule); threads that
// wait at barriers in different lines are an error. A grid barrier counts the threads of all resident blocks.
#include "sim/device/sim_internal.h"
#include <cstdlib>

const char *sim_opname(SimOp o) {
    static const char *n[] = {"__syncwarp",        "__ballot_sync",     "__any_sync",        "__all_sync",
                              "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
                              "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
                              "__reduce_or_sync",  "__reduce_xor_sync", "__match_any_sync",  "mma",
                              "ldmatrix",          "butterfly"};
    return n[o];
}
static inline bool all_arrived(const Warp *w, unsigned mask) {
    const unsigned need = mask & w->exist & ~w->done;
    return (w->waiting & need) == need;
}
// Computes the results of the collective on `mask`, in which all of its lanes wait, and makes the lanes ready.
static void complete(Warp *w, unsigned mask) {
    unsigned          need = mask & w->exist & ~w->done;
    static const bool lax  = getenv("SIM_LAX_EXIT") != nullptr;
    Fiber            *f0   = w->f[__builtin_ctz(need)], *p[32];
    int               n    = 0;
    for (unsigned m = need; m; m &= m - 1) {
        Fiber *f = p[n++] = w->f[__builtin_ctz(m)];
        if (f->op != f0->op || f->mask != mask || f->width != f0->width)
            sim_report(true,
                       "lanes of one collective disagree: lane %u %s mask %08x (%s:%d), lane %u %s mask %08x "
                       "(%s:%d)",
                       f0->lane, sim_opname(f0->op), f0->mask, f0->file, f0->line, f->lane, sim_opname(f->op), f->mask,
                       f->file, f->line);
        f->waiting = 0;
    }
    if (!lax && (mask & w->exist & w->done))
        sim_report(true, "%s mask %08x names lanes %08x that have returned, at %s:%d", sim_opname(f0->op), mask,
                   mask & w->done, f0->file, f0->line);
    uint64_t acc  = p[0]->val;
    auto     fold = [&](auto op) {
        for (int i = 1; i < n; i++) acc = op(acc, p[i]->val);
    };
    auto sx   = [&](uint64_t a, uint64_t b) { return f0->arg ? (int)a < (int)b : (unsigned)a < (unsigned)b; };
    auto move = [&](auto src) { // shuffles: src(fiber, lane, segment start, segment end) is the source lane
        for (int i = 0; i < n; i++) {
            Fiber *f = p[i];
            int    l = (int)f->lane, s = src(f, l, l & ~(f->width - 1), l | (f->width - 1));
            if (!(need >> s & 1))
                sim_report(true, "%s reads lane %d, which does not take part (mask %08x, exited %08x) at %s:%d",
                           sim_opname(f->op), s, mask, w->done, f->file, f->line);
            f->res = w->f[s]->val;
        }
    };
    bool same = true; // every lane has the result acc
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
    case SIM_FOLD: {
        uint64_t v[32], t[32];
        if (n != 32) sim_report(true, "a butterfly needs all 32 lanes");
        for (int i = 0; i < 32; i++) v[i] = p[i]->val;
        for (int o = 16; o; o >>= 1) {
            for (int i = 0; i < 32; i++) t[i] = f0->fold(v[i], v[i ^ o]);
            memcpy(v, t, sizeof v);
        }
        for (int i = 0; i < 32; i++) p[i]->res = v[i];
        same = false;
        break;
    }
    case SIM_MMA:
    case SIM_LDMATRIX:
        if (n != 32) sim_report(true, "%s needs all 32 lanes, at %s:%d", sim_opname(f0->op), f0->file, f0->line);
        sim_tile_complete(w);
        break;
    }
    if (same)
        for (int i = 0; i < n; i++) p[i]->res = acc;
    w->waiting &= ~need;
    w->ready |= need;
    sim_events++;
    sim_collectives++;
}
// Completes the collective on `mask` if all of its lanes have arrived.
bool sim_warp_try(Warp *w, unsigned mask) {
    if (!all_arrived(w, mask)) return false;
    complete(w, mask);
    return true;
}
// Called by one lane: records its operands, completes the collective if it is the last lane, and yields until
// the result is there.
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
        sim_report(true, "%s called by lane %u, which is not in its mask %08x, at %s:%d", sim_opname(op), f->lane, mask,
                   file, line);
    if (width & (width - 1) || width < 1 || width > 32)
        sim_report(true, "%s width %d at %s:%d", sim_opname(op), width, file, line);
    w->waiting |= 1u << f->lane;
    f->waiting = 1;
    if (all_arrived(w, mask)) complete(w, mask);
    sim_next(f);
    return f->res;
}
bool sim_fused_bits(SimFold fold, uint64_t *v, const char *file, int line) {
    static const bool fused = getenv("SIM_FUSED") != nullptr;
    if (!fused) return false;
    sim_f->fold = fold;
    *v          = sim_warp(SIM_FOLD, 0xffffffffu, *v, 0, 32, file, line);
    return true;
}

// ---- block and grid barriers ----
std::vector<Block *> sim_resident;
static unsigned long grid_arrived;

// Makes the threads ready that wait for this kind of barrier (values of Fiber.waiting).
static void release(Block *b, int kind) {
    for (auto &w : b->w)
        for (unsigned m = w.exist & ~w.done; m; m &= m - 1) {
            Fiber *f = w.f[__builtin_ctz(m)];
            if (f->waiting == kind) {
                f->waiting = 0;
                w.ready |= m & -m;
            }
        }
}
void sim_bar_try(Block *b) {
    if (!b->nbar || b->nbar != b->nlive) return;
    b->bres = b->barop == 1 || b->barop == 3 ? b->bacc : b->bacc == (int)b->nbar;
    if (b->barop == 3) b->bres = b->bacc != 0;
    b->nbar = 0;
    b->bacc = 0;
    sim_events++;
    sim_st.barriers++;
    race_bar(b);
    release(b, 2);
}
// Called by one thread. The first to arrive decides which barrier this is; the others must be at the same line.
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
        sim_report(true, "divergent barrier: this thread is at %s:%d, others wait at %s:%d", file, line, b->bfile,
                   b->bline);
    b->nbar++;
    b->bacc += pred != 0;
    f->waiting = 2;
    sim_bar_try(b);
    sim_next(f);
    return b->bres;
}
void sim_grid_try(void) {
    if (!grid_arrived) return;
    unsigned long live = 0;
    for (auto *b : sim_resident) live += b->nlive;
    if (grid_arrived != live) return;
    grid_arrived = 0;
    sim_events++;
    race_grid();
    for (auto *b : sim_resident) release(b, 3);
}
void sim_grid_sync(const char *file, int line) {
    Fiber *f = sim_f;
    f->file  = file;
    f->line  = line;
    if (!sim_l->coop) sim_report(true, "grid sync in a launch without the cooperative attribute, at %s:%d", file, line);
    f->waiting = 3;
    grid_arrived++;
    sim_grid_try();
    sim_next(f);
}
// A spinning thread yields to the scheduler, which resumes it when no other thread can run.
void sim_spin(const char *file, int line) {
    Fiber *f   = sim_f;
    f->file    = file;
    f->line    = line;
    f->waiting = 4;
    sim_swap_to(f, nullptr);
}
