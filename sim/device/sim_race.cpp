// sim_race.cpp - checks every memory access of kernels compiled with clang's -fsanitize=thread.
//
// The compiler inserts a call of __tsan_readN or __tsan_writeN before each access. libtsan is not linked: these
// functions are defined below. They find data races within a warp, a block and a grid and between graph nodes,
// accesses outside device memory, reads of memory that nobody wrote, misaligned accesses and PDL hazards. The
// other sim_*.cpp files need -DSIM_RACE too.
//
// Shadow memory has cells: the last write and two readers since. A cell stands for a page of memory while only whole
// pages are accessed (copies), then for a word while only whole words are, then for a byte. Each access has a time
// stamp of four levels:
//
//     Acc = launch | grid: grid barriers so far | blk, epoch: block, its barriers so far | tid, clk: thread, its clock
//
// A thread's clock advances at __syncwarp, fences and releasing atomics. Access A happened before the present
// moment of thread F (`ordered`) if any of these holds:
//
//     A is of another launch       and that launch is before this one in the stream, or its node is an ancestor
//     A.grid < grid barriers       a grid barrier lies between
//     same block                   same thread; A.epoch < the block's (__syncthreads); or same warp and
//                                  F.seen[lane of A] >= A.clk (__syncwarp)
//     any block                    F, or F's block at its last barrier, has acquired A's epoch or clock
//
// Two accesses of a byte, one of them a write, race unless the earlier one happened before the later one or both are
// atomic. Shuffles order no memory.
//
// Hand-over between blocks, e.g. "the last block to arrive adds the partial sums":
//
//     block 1: write; __threadfence; atomicAdd(n)    released[n] |= what the thread knows (clock, block's epoch)
//     block 2: atomicAdd(n); __threadfence; read     pend |= released[n]; the fence adds it to rs: ordered
//
// Within a block a barrier passes knowledge on: rs of all threads is joined into the block's rs, and the clocks of
// threads that have fenced into the block's rel, which any later atomic of the block releases.
#include "sim/device/sim_internal.h"
#include <map>
#include <memory>
#include <unordered_map>

// Knowledge that a thread or block has acquired from others: all that block b did before its barrier number
// blk[b], and what thread (b << 32 | t) did up to its clock thr[...].
struct RaceSeen {
    std::map<uint32_t, uint32_t> blk;
    std::map<uint64_t, uint32_t> thr;
};
struct Acc { // one access; launch 0: none
    uint32_t launch, blk, epoch, grid, clk;
    uint16_t tid, atomic;
};
struct Cell { // last write, two readers since, whether it was ever written
    Acc  w, r[2];
    bool init;
};
enum { WORD = 4, PAGE = 256 };
struct Word {
    Cell                    all;
    std::unique_ptr<Cell[]> bytes; // null while its bytes have the same history
};
struct Page {
    Cell                    all;
    std::unique_ptr<Word[]> words; // null while its words have the same history
};
static std::unordered_map<uintptr_t, Page>     shadow;   // by address / PAGE
static std::unordered_map<uintptr_t, RaceSeen> released; // per atomic word: what its writers have published
// pdl_floor: the first launch that may still run beside the present one, 0 if none may.
static uint32_t                   grid_epoch, pdl_floor, prev_launch;
static bool                       on;
static std::map<std::string, int> said;

static Page *page_of(uintptr_t a) {
    static struct {
        uintptr_t number;
        Page     *page;
    } found[512];
    const uintptr_t number = a / PAGE;
    auto           &at     = found[number % 512];
    if (at.page == nullptr || at.number != number) at = {number, &shadow[number]};
    return at.page;
}
static Word *words_of(Page *p) {
    if (!p->words) {
        p->words.reset(new Word[PAGE / WORD]);
        for (int i = 0; i < PAGE / WORD; i++) p->words[i].all = p->all;
    }
    return p->words.get();
}
static Cell *bytes_of(Word *w) {
    if (!w->bytes) {
        w->bytes.reset(new Cell[WORD]);
        for (int i = 0; i < WORD; i++) w->bytes[i] = w->all;
    }
    return w->bytes.get();
}
// Calls f with each cell of n bytes.
template <typename F> static inline void each_cell(uintptr_t a, size_t n, const F &f) {
    for (size_t step; n > 0; a += step, n -= step) {
        Page *p = page_of(a);
        if (!p->words && a % PAGE == 0 && n >= PAGE) {
            step = PAGE;
            f(&p->all);
            continue;
        }
        Word *w = &words_of(p)[a % PAGE / WORD];
        if (!w->bytes && a % WORD == 0 && n >= WORD) {
            step = WORD;
            f(&w->all);
            continue;
        }
        step = 1;
        f(&bytes_of(w)[a % WORD]);
    }
}
void race_forget(const void *memory, size_t n, bool init) {
    const Cell fresh = {{}, {}, init};
    uintptr_t  a     = (uintptr_t)memory;
    for (size_t step; n > 0; a += step, n -= step) {
        Page *p = page_of(a);
        if (a % PAGE == 0 && n >= PAGE) {
            step   = PAGE;
            p->all = fresh;
            p->words.reset();
            continue;
        }
        Word *w = &words_of(p)[a % PAGE / WORD];
        if (a % WORD == 0 && n >= WORD) {
            step   = WORD;
            w->all = fresh;
            w->bytes.reset();
            continue;
        }
        step                  = 1;
        bytes_of(w)[a % WORD] = fresh;
    }
}
static void join(RaceSeen *&d, const RaceSeen &s) {
    if (!d) d = new RaceSeen;
    for (auto &k : s.blk) {
        auto &v = d->blk[k.first];
        if (k.second > v) v = k.second;
    }
    for (auto &k : s.thr) {
        auto &v = d->thr[k.first];
        if (k.second > v) v = k.second;
    }
}
void race_launch(void) {
    on         = true;
    grid_epoch = 0;
    released.clear();
    // PDL works from kernel to kernel. In a chain of such launches each lets the next begin early, so until a kernel
    // waits, none of the chain before it need have ended.
    const bool follows = sim_l->pdl && prev_launch + 1 == sim_launch_id;
    pdl_floor          = !follows ? 0 : pdl_floor != 0 ? pdl_floor : prev_launch;
    prev_launch        = sim_launch_id;
}
static void drop(RaceSeen *&s) {
    delete s;
    s = nullptr;
}
void race_block_start(Block *b) {
    drop(b->rs);
    drop(b->rel);
    b->epoch = 1;
    for (auto &w : b->w)
        for (unsigned l = 0; l < 32; l++)
            if (w.exist >> l & 1) {
                Fiber *f     = w.f[l];
                f->clk       = 1;
                f->fence_clk = f->fence_epoch = 0;
                memset(f->seen, 0, sizeof f->seen);
                drop(f->rs);
                drop(f->pend);
            }
}
// A block barrier: every thread learns what any thread of the block has acquired.
void race_bar(Block *b) {
    b->epoch++;
    for (auto &w : b->w)
        for (unsigned l = 0; l < 32; l++)
            if (w.exist >> l & 1) {
                Fiber *f = w.f[l];
                memset(f->seen, 0, sizeof f->seen);
                if (f->rs) {
                    join(b->rs, *f->rs);
                    drop(f->rs);
                }
                if (f->fence_clk) {
                    RaceSeen s;
                    s.thr[(uint64_t)b->id << 32 | f->lin] = f->fence_clk;
                    join(b->rel, s);
                }
            }
}
void race_grid(void) { grid_epoch++; }
// __syncwarp: every lane has seen all lanes up to their present clocks (j: the joined clocks), which then advance.
void race_warp_sync(Warp *w, unsigned lanes) {
    uint32_t j[32] = {0};
    for (unsigned m = lanes; m; m &= m - 1) {
        Fiber *f = w->f[__builtin_ctz(m)];
        for (int i = 0; i < 32; i++)
            if (f->seen[i] > j[i]) j[i] = f->seen[i];
        if (f->clk > j[f->lane]) j[f->lane] = f->clk;
    }
    for (unsigned m = lanes; m; m &= m - 1) {
        Fiber *f = w->f[__builtin_ctz(m)];
        memcpy(f->seen, j, sizeof j);
        f->clk++;
    }
}
static Acc now(Fiber *f, bool at) {
    return {sim_launch_id, f->b->id, f->b->epoch, grid_epoch, f->clk, (uint16_t)f->lin, at};
}
// Did access a happen before the present moment of f? f null: a copy or memset by the runtime.
static bool ordered(const Acc &a, Fiber *f) {
    if (a.launch != sim_launch_id) {
        if (!sim_order || a.launch < sim_order->base) return true;
        size_t k = a.launch - sim_order->base;
        if (k >= sim_order->node_of_launch.size()) return true;
        int n = sim_order->node_of_launch[k];
        return n == sim_order->cur || sim_order->anc[sim_order->cur][n];
    }
    if (!f || a.grid < grid_epoch) return true;
    if (a.blk == f->b->id) {
        if (a.epoch < f->b->epoch || a.tid == f->lin) return true;
        if (a.tid / 32 == f->lin / 32 && f->seen[a.tid % 32] >= a.clk) return true;
    }
    for (RaceSeen *s : {f->rs, f->b->rs})
        if (s) {
            auto b = s->blk.find(a.blk);
            if (b != s->blk.end() && a.epoch < b->second) return true;
            auto t = s->thr.find((uint64_t)a.blk << 32 | a.tid);
            if (t != s->thr.end() && a.clk <= t->second) return true;
        }
    return false;
}
// Reports each kind of fault once per kernel and instruction. o: the other access of a race.
static void complain(const char *what, uintptr_t a, size_t n, bool wr, const Acc *o, void *pc) {
    char            key[400], who[128] = "", off[64] = "";
    const SimAlloc *al = sim_alloc_of((void *)a);
    if (al)
        snprintf(off, sizeof off, ", byte %zu of a %zu-byte allocation", (size_t)(a - (uintptr_t)al->p), al->n);
    else if (Fiber *f = sim_f) {
        for (auto &s : f->b->slots)
            if ((char *)a >= (char *)s.p && (char *)a < (char *)s.p + s.n)
                snprintf(off, sizeof off, ", shared byte %zu of %zu", (size_t)(a - (uintptr_t)s.p), s.n);
        if (f->b->dyn && (char *)a >= (char *)f->b->dyn && (char *)a < (char *)f->b->dyn + sim_l->smem)
            snprintf(off, sizeof off, ", dynamic shared byte %zu of %u", (size_t)(a - (uintptr_t)f->b->dyn),
                     sim_l->smem);
    }
    if (o)
        snprintf(who, sizeof who, "; other side: launch %s%u block %u thread %u", o->launch == sim_launch_id ? "" : "#",
                 o->launch == sim_launch_id ? 0 : o->launch, o->blk, o->tid);
    snprintf(key, sizeof key, "%s%s%p", what, sim_l ? sim_l->k->name.c_str() : "", pc);
    if (said[key]++) return;
    sim_report(false, "%s: %s of %zu bytes at %p%s%s (pc %p)", what, wr ? "write" : "read", n, (void *)a, off, who, pc);
}

enum { SHARED = 1, GLOBAL = 2, OTHER = 3 };
extern "C" char __data_start, _end, __executable_start;
// The address space of an access, bounds checked. OTHER is not checked for races: constants and literals of the
// program, kernel arguments, the host stack near here.
static int space(uintptr_t a, size_t n, bool wr, void *pc) {
    Fiber *f = sim_f;
    char  *p = (char *)a;
    for (auto &s : f->b->slots)
        if (p >= (char *)s.p && p < (char *)s.p + s.n) {
            if (p + n > (char *)s.p + s.n) complain("shared memory access out of bounds", a, n, wr, nullptr, pc);
            return SHARED;
        }
    if (f->b->dyn && p >= (char *)f->b->dyn && p < (char *)f->b->dyn + sim_l->smem) {
        if (p + n > (char *)f->b->dyn + sim_l->smem)
            complain("dynamic shared memory access out of bounds", a, n, wr, nullptr, pc);
        return SHARED;
    }
    const SimAlloc *al = sim_alloc_of(p);
    if (al) {
        if (p + n > al->p + al->n) complain("global memory access out of bounds", a, n, wr, nullptr, pc);
        return GLOBAL;
    }
    if (p >= (char *)&__executable_start && p < (char *)&_end)
        return OTHER; // __constant__ and __device__ data, literals
    if (p >= (char *)sim_l->args.data() && p < (char *)(sim_l->args.data() + sim_l->args.size())) return OTHER;
    for (auto &d : sim_l->data)
        if (p >= d.data() && p < d.data() + d.size()) return OTHER;
    char x;
    if (p > &x - 4096 && p < &x + (1 << 20)) return OTHER;
    complain("access to memory that is not device memory", a, n, wr, nullptr, pc);
    return 0;
}
// The CUDA thread that runs, null in host code.
static inline Fiber *here(void) { return sim_here ? sim_f : nullptr; }
// One access of n bytes by thread f; at: atomic. A third reader replaces the second: a race with the one that was
// dropped goes unnoticed.
static __attribute__((noinline)) void check(Fiber *f, uintptr_t a, size_t n, bool wr, bool at, void *pc) {
    int sp = space(a, n, wr, pc);
    if (sp != SHARED && sp != GLOBAL) return;
    if (n <= 16 && a % n) complain("misaligned access", a, n, wr, nullptr, pc);
    const Acc me = now(f, at);
    each_cell(a, n, [&](Cell *c) {
        if (!wr && !c->init) {
            complain("read of memory that was never written", a, n, wr, nullptr, pc);
            c->init = true;
        }
        if (f->pdl_wait && pdl_floor && c->w.launch >= pdl_floor && c->w.launch != sim_launch_id)
            complain("PDL hazard: touches an earlier kernel's output before griddepcontrol.wait", a, n, wr, &c->w, pc);
        if (f->pdl_wait && pdl_floor && wr)
            for (auto &r : c->r)
                if (r.launch >= pdl_floor && r.launch != sim_launch_id)
                    complain("PDL hazard: overwrites an earlier kernel's input before griddepcontrol.wait", a, n, wr,
                             &r, pc);
        if (c->w.launch && !(at && c->w.atomic) && !ordered(c->w, f))
            complain(wr ? "race: write after write" : "race: read after write", a, n, wr, &c->w, pc);
        if (wr) {
            for (auto &r : c->r)
                if (r.launch && !(at && r.atomic) && !ordered(r, f))
                    complain("race: write after read", a, n, wr, &r, pc);
            c->w    = me;
            c->r[0] = c->r[1] = Acc{};
            c->init           = true;
        } else if (!c->r[0].launch || (c->r[0].blk == me.blk && c->r[0].tid == me.tid && c->r[0].launch == me.launch) ||
                   ordered(c->r[0], f))
            c->r[0] = me;
        else
            c->r[1] = me;
    });
}
// An access by the running thread. Its stack and the built-in variables (TLS) are its own.
static inline void access(uintptr_t a, size_t n, bool wr, bool at, void *pc) {
    if (((char *)a >= sim_stk_lo && (char *)a < sim_stk_hi) || !on) return;
    Fiber *f = here();
    if (!f || (a >= (uintptr_t)&threadIdx - 256 && a < (uintptr_t)&threadIdx + 256)) return;
    check(f, a, n, wr, at, pc);
}
// An access by a copy or memset of the runtime, or by a cp.async of the running thread.
void race_touch(const void *p, size_t n, bool wr) {
    if (here()) {
        access((uintptr_t)p, n, wr, false, __builtin_return_address(0));
        return;
    }
    each_cell((uintptr_t)p, n, [&](Cell *c) {
        if (sim_order && sim_order->cur >= 0)
            for (Acc *o : {&c->w, &c->r[0], &c->r[1]})
                if (o->launch && (wr || o == &c->w) && !ordered(*o, nullptr))
                    complain("race between graph nodes (copy or memset)", (uintptr_t)p, n, wr, o, nullptr);
        if (wr) {
            c->w    = Acc{sim_launch_id, 0, 0, 0, 0, 0, 0};
            c->r[0] = c->r[1] = Acc{};
            c->init           = true;
        }
    });
}
// The target of a cp.async: written now, and unreadable (not initialised) until it is waited for.
void race_async(void *p, size_t n) {
    access((uintptr_t)p, n, true, false, __builtin_return_address(0));
    each_cell((uintptr_t)p, n, [](Cell *c) { c->init = false; });
}
// Release: a fence, then an atomic by this thread, or a fence, a barrier, then an atomic by another thread of
// the block. Acquire: an atomic, then a fence. An atomic with `order` 1 (acquire), 2 (release) or 3 (both) has
// the fence built in.
void race_fence(void) {
    Fiber *f       = sim_f;
    f->fence_clk   = f->clk++;
    f->fence_epoch = f->b->epoch;
    if (f->pend) {
        join(f->rs, *f->pend);
        drop(f->pend);
    }
}
void race_atomic(void *p, int n, int order, void *pc) {
    Fiber *f = sim_f;
    access((uintptr_t)p, n, true, true, pc);
    RaceSeen &rel = released[(uintptr_t)p], *d = &rel, mine;
    if (order & 2) {
        f->fence_clk   = f->clk++;
        f->fence_epoch = f->b->epoch;
    }
    if (f->fence_clk) {
        mine.blk[f->b->id]                          = f->fence_epoch;
        mine.thr[(uint64_t)f->b->id << 32 | f->lin] = f->fence_clk;
        join(d, mine);
        if (f->rs) join(d, *f->rs);
        if (f->b->rs) join(d, *f->b->rs);
    }
    if (f->b->rel) join(d, *f->b->rel);
    if (order & 1)
        join(f->rs, rel);
    else
        join(f->pend, rel);
}

extern "C" {
#define PC __builtin_return_address(0)
void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
#define ACC(n)                                                                                                         \
    void __tsan_read##n(void *p) { access((uintptr_t)p, n, false, false, PC); }                                        \
    void __tsan_write##n(void *p) { access((uintptr_t)p, n, true, false, PC); }                                        \
    void __tsan_volatile_read##n(void *p) { access((uintptr_t)p, n, false, false, PC); }                               \
    void __tsan_volatile_write##n(void *p) { access((uintptr_t)p, n, true, false, PC); }                               \
    void __tsan_unaligned_read##n(void *p) { access((uintptr_t)p, n, false, false, PC); }                              \
    void __tsan_unaligned_write##n(void *p) { access((uintptr_t)p, n, true, false, PC); }                              \
    void __tsan_read_write##n(void *p) {                                                                               \
        access((uintptr_t)p, n, false, false, PC);                                                                     \
        access((uintptr_t)p, n, true, false, PC);                                                                      \
    }
ACC(1) ACC(2) ACC(4) ACC(8) ACC(16) void __tsan_read_range(void *p, size_t n) {
    access((uintptr_t)p, n, false, false, PC);
}
void  __tsan_write_range(void *p, size_t n) { access((uintptr_t)p, n, true, false, PC); }
void *__tsan_memcpy(void *d, const void *s, size_t n) {
    if (here()) {
        access((uintptr_t)s, n, false, false, PC);
        access((uintptr_t)d, n, true, false, PC);
    }
    return memcpy(d, s, n);
}
void *__tsan_memset(void *d, int v, size_t n) {
    if (here()) access((uintptr_t)d, n, true, false, PC);
    return memset(d, v, n);
}
void *__tsan_memmove(void *d, const void *s, size_t n) {
    if (here()) {
        access((uintptr_t)s, n, false, false, PC);
        access((uintptr_t)d, n, true, false, PC);
    }
    return memmove(d, s, n);
}
}
